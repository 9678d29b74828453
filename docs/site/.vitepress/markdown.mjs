// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// What a page of GitHub needs to be read here: its anchors, its links to files that are no pages, and its diagrams.
import fs from 'node:fs'
import path from 'node:path'
import { address, pages, root } from './sources.mjs'
import { load, show, take } from './transcripts.mjs'

/** repository and branch are where files are linked to that are no pages, and where pages are edited. */
export const repository =
  process.env.REPOSITORY ||
  (process.env.GITHUB_REPOSITORY
    ? `${process.env.GITHUB_SERVER_URL}/${process.env.GITHUB_REPOSITORY}`
    : 'https://github.com/YOUR-ORGANIZATION/operator-labs')
export const branch = process.env.BRANCH || 'main'

/** slug is the anchor of a heading, as GitHub makes it (manifest.Anchors is the same in Go). */
export const slug = (heading) =>
  heading.toLowerCase().replace(/[^\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\- ]/gu, '').replaceAll(' ', '-')

const known = new Set(pages())

/** target is where a link of a page leads to on the site. */
function target(source, link) {
  const [, file, anchor = ''] = link.match(/^([^#]*)(#.*)?$/)
  if (/^[a-z][a-z0-9+.-]*:/i.test(link) || file === '') return link
  const to = path.posix.join(path.posix.dirname(source), decodeURI(file)).replace(/\/$/, '')
  for (const page of [to, `${to}/README.md`]) {
    if (known.has(page)) return path.posix.relative(path.posix.dirname(address(source)), address(page)).replace(/^(?!\.)/, './') + anchor
  }
  const found = fs.statSync(path.join(root, to), { throwIfNoEntry: false })
  if (!found) throw new Error(`${source}: ${link} leads to ${to}, which is not there`)
  if (recording.test(to)) return path.posix.relative(path.posix.dirname(address(source)), to).replace(/json$/, 'html')
  if (found.isDirectory()) return `${repository}/tree/${branch}/${to}`
  return `${repository}/blob/${branch}/${to}${line(to, anchor.slice(1))}`
}

/** recording matches a recorded run. It has a page, which is not one of VitePress. */
const recording = /^docs\/runs\/.*\.json$/

/** line is the anchor on GitHub of a declaration, or of a region, of a file with code. */
function line(file, name) {
  if (!name) return ''
  const last = name.split('.').pop()
  const declared = new RegExp(String.raw`^\s*(func (\([^)]*\) )?|type |var |const )${last}\b|^\s*${last}\b.* = |lab:begin ${name}\b`)
  const lines = fs.readFileSync(path.join(root, file), 'utf8').split('\n')
  return `#L${lines.findIndex((text) => declared.test(text)) + 1}`.replace('#L0', '')
}

/** extend teaches VitePress' Markdown parser what this repository's pages have. */
export const extend = (diagrams) => (md) => {
  md.disable('emoji', true)
  md.core.ruler.push('repository', ({ env, tokens }) => {
    // A head without a text, as GitHub's tables need one, names nothing.
    tokens.forEach((token, i) => {
      if (token.type === 'th_open' && tokens[i + 1].content === '') token.tag = tokens[i + 2].tag = 'td'
    })
    const file = env.realPath ?? env.path
    if (!file) return // a title
    const source = path.relative(root, file).split(path.sep).join('/')
    for (const token of tokens.flatMap((token) => [token, ...(token.children ?? [])])) {
      if (token.type === 'link_open') {
        const link = token.attrGet('href')
        token.attrSet('href', target(source, link))
        // VitePress' router would look for a page of its own.
        if (recording.test(path.posix.join(path.posix.dirname(source), link))) token.attrSet('target', '_self')
      }
      // VitePress takes only pictures along whose path begins with a dot.
      if (token.type.startsWith('html_')) token.content = token.content.replace(/(<img[^>]* src=")(?![a-z]+:|[./])/g, '$1./')
    }
  })
  // What a block of commands prints is folded below it, so that a reader can predict it first.
  const printed = (token, options, env, self) => {
    env.transcript ??= load(path.relative(root, env.realPath ?? env.path ?? '').split(path.sep).join('/'))
    const content = show(take(env.transcript, token.content))
    if (!content) return ''
    const block = Object.assign(Object.create(Object.getPrototypeOf(token)), token, { info: 'console', content, attrs: null })
    return `<details class="printed"><summary>What this prints</summary>\n${fence([block], 0, options, env, self)}</details>\n`
  }
  // Two curly brackets are text here, and no expression of Vue's.
  const { text, fence } = md.renderer.rules
  md.renderer.rules.text = (...args) => text(...args).replaceAll('{{', '&#123;&#123;')
  md.renderer.rules.fence = (tokens, index, ...rest) => {
    const token = tokens[index]
    const drawn = token.info.trim() === 'mermaid' && diagrams[token.content]
    if (token.info.trim() === 'sh') return fence(tokens, index, ...rest) + printed(token, ...rest)
    if (!drawn) return fence(tokens, index, ...rest)
    const heading = tokens.slice(0, index).findLastIndex(({ type }) => type === 'heading_open')
    const label = md.utils.escapeHtml(`Diagram: ${tokens[heading + 1]?.content.replaceAll('`', '') ?? ''}`)
    // The picture is text for Vue, which would otherwise compile it.
    return ['light', 'dark'].map((theme) => {
      const svg = drawn[theme].replace('<svg ', `<svg aria-label="${label}" `)
      return `<div class="diagram ${theme}-only" v-html="${md.utils.escapeHtml(JSON.stringify(svg))}"></div>\n`
    }).join('')
  }
}
