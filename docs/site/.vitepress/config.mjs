// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors
import path from 'node:path'
import { defineConfig } from 'vitepress'
import { draw } from './diagrams.mjs'
import { branch, extend, repository, slug } from './markdown.mjs'
import { address, exclude, root, sidebar } from './sources.mjs'

// Without JavaScript nothing opens a menu: the list of pages is below the text on a small screen, and what needs a script is hidden.
const withoutScript = `<style>
.VPNavBarSearch, .VPNavBarHamburger, .VPNavBarAppearance, .VPNavBarExtra, .VPLocalNav { display: none !important }
@media (max-width: 959px) {
  .VPSidebar { order: 1 }
  .VPSidebar { position: static !important; transform: none !important; opacity: 1 !important; visibility: visible !important; width: auto !important; max-width: none !important; box-shadow: none !important }
}
</style>`

// Pages are in folders above that of the site's modules, where Node would not find them.
const modulesOfTheSite = {
  name: 'modules-of-the-site',
  enforce: 'pre',
  resolveId(name, importer) {
    const outside = importer && path.relative(import.meta.dirname, importer.split('?')[0]).startsWith(path.join('..', '..'))
    if (outside && /^vue(\/|$)/.test(name)) return this.resolve(name, path.join(import.meta.dirname, 'config.mjs'), { skipSelf: true })
  },
}

export default defineConfig({
  lang: 'en',
  title: 'Operator Labs',
  titleTemplate: ':title · Operator Labs',
  description: 'Learn to write Kubernetes operators by writing one.',
  // The build makes all addresses relative afterwards (relocate.mjs).
  base: process.env.SITE_BASE || '/',
  srcDir: root,
  srcExclude: exclude,
  outDir: path.join(root, 'out/site'),
  cacheDir: path.join(root, '.cache/site/vitepress'),
  rewrites: address,
  // The pages of recorded runs come after the build. The tests of scripts/proving/browser follow all links.
  ignoreDeadLinks: [/^\.\/\d\d-[a-z-]+\/(skeleton|mistake|solution)$/],
  head: [
    ['link', { rel: 'icon', href: 'data:image/svg+xml,<svg xmlns=%22http://www.w3.org/2000/svg%22 viewBox=%220 0 16 16%22><text y=%2213%22 font-size=%2214%22>🍦</text></svg>' }],
    ['noscript', {}, withoutScript],
  ],
  markdown: {
    anchor: { slugify: slug },
    attrs: { disable: true },
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    config: extend(draw()),
  },
  vite: {
    plugins: [modulesOfTheSite],
    build: { chunkSizeWarningLimit: 4096 },
    server: { watch: { ignored: ['.cache', 'out', 'clusters', 'scripts', 'solutions'].map((name) => `${root}/${name}/**`) } },
  },
  // A lab's page comes from its solution: that is where it is edited.
  transformPageData: (page) => ({ filePath: page.filePath.replace(/^labs\/(.*)\/README\.md$/, 'solutions/$1/TASK.md') }),
  themeConfig: {
    nav: [
      { text: 'Lectures', link: '/docs/lectures/01-extending-kubernetes', activeMatch: '^/docs/lectures/' },
      { text: 'Labs', link: '/labs/01-icecream/', activeMatch: '^/labs/' },
      { text: 'Real runs', link: '/docs/runs/' },
      { text: 'All documents', link: '/docs/' },
    ],
    sidebar: sidebar(),
    outline: 'deep',
    search: { provider: 'local', options: { detailedView: false } },
    editLink: { pattern: `${repository}/edit/${branch}/:path`, text: 'Edit this page' },
    socialLinks: [{ icon: 'github', link: repository }],
    externalLinkIcon: true,
    docFooter: { prev: 'Previous', next: 'Next' },
  },
})
