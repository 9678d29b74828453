// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Which files of the repository are pages, and where each is on the site. Nothing is copied: the pages are those that GitHub shows.
import fs from 'node:fs'
import path from 'node:path'

/** root is the repository's folder. */
export const root = path.resolve(import.meta.dirname, '../../..')

/** exclude is what VitePress must not take for pages, as patterns from the root. */
export const exclude = [
  'clusters/**', 'out/**', 'scripts/**', 'solutions/**', 'docs/slides/**', '**/node_modules/**', 'labs/*/*/**', 'labs/*/!(README).md',
]

/** address is where a page is on the site: where it is in the repository, but a README is its folder's index. */
export function address(source) {
  if (source === 'docs/site/index.md') return 'index.md'
  return source.replace(/\/README\.md$/, '/index.md')
}

function below(folder) {
  return fs.readdirSync(path.join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const name = `${folder}/${entry.name}`
    if (entry.isDirectory()) return /^\.|^node_modules$|^slides$/.test(entry.name) ? [] : below(name)
    return entry.name.endsWith('.md') ? [name] : []
  })
}

/** pages lists the sources of all pages, by their paths from the root. */
export function pages() {
  const labs = fs.readdirSync(path.join(root, 'labs')).map((name) => `labs/${name}/README.md`)
  return ['README.md', 'CONTRIBUTING.md', ...labs.filter((name) => fs.existsSync(path.join(root, name))), ...below('docs')]
}

/** read returns a page's text. */
export const read = (source) => fs.readFileSync(path.join(root, source), 'utf8')

/** title is a page's first heading, without marks. */
export function title(source) {
  const heading = read(source).match(/^# (.*)$/m)
  return heading ? heading[1].replaceAll('`', '') : source
}

const numbered = /^docs\/lectures\/\d/
const groups = { lectures: 'More to read', guides: 'Guides', reference: 'Reference' }

/**
 * sidebar lists the pages of docs/ by their folders, in the order in which docs/README.md links to them, and the labs. Lectures with a
 * number come in its order. Pages to which it does not link are last. The decisions have a list of their own.
 */
export function sidebar() {
  const linked = [...read('docs/README.md').matchAll(/\]\(([^)#]+\.md)/g)].map((match) => path.posix.join('docs', match[1]))
  const position = (source) => (linked.includes(source) ? linked.indexOf(source) : linked.length)
  const all = pages().sort()
  const short = (text) => text.replace(/^(?:Lecture|Lab) (\d+)(, appendix)?: /, (_, number, appendix) => `${number}${appendix ? 'a' : ''}. `)
  const item = (source) => ({ text: short(title(source)), link: '/' + address(source).replace(/(index)?\.md$/, '') })
  const group = (text, sources) => ({ text, items: sources.map(item) })
  const folder = (name) => all.filter((source) => source.startsWith(`docs/${name}/`) && !numbered.test(source))
    .sort((a, b) => position(a) - position(b))
  const folders = all.map((source) => source.split('/')).filter((parts) => parts[0] === 'docs' && parts.length > 2).map((parts) => parts[1])
  const others = [...new Set(folders)].filter((name) => !['site', 'decisions', ...Object.keys(groups)].includes(name))
  const about = group('About', [
    'docs/README.md', 'README.md', 'CONTRIBUTING.md', 'docs/house.md', 'docs/benchmarks.md', 'docs/proof.md', 'docs/decisions/README.md',
  ])
  return {
    '/': [
      group('Lectures', all.filter((source) => numbered.test(source))),
      group('Labs', all.filter((source) => source.startsWith('labs/'))),
      ...Object.entries(groups).map(([name, text]) => group(text, folder(name))),
      ...others.map((name) => group(name[0].toUpperCase() + name.slice(1), folder(name))),
      about,
    ],
    '/docs/decisions/': [group('Decisions', folder('decisions').sort()), about],
  }
}
