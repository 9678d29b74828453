// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// VitePress wants to know below which path a site will be served. This makes a built site work below any: HTML and CSS get relative
// addresses, and scripts learn the path from the address of the page.
import fs from 'node:fs'
import path from 'node:path'
import { parseAst } from 'vite'

/** placeholder is the path for which the site is built before it is relocated. */
export const placeholder = '/-base-/'

const variable = 'window.__BASE__'

/** script replaces the placeholder in all strings of a script. */
function script(code) {
  if (!code.includes(placeholder)) return code
  const edits = []
  const visit = (node, parent) => {
    if (Array.isArray(node)) return node.forEach((child) => visit(child, parent))
    if (!node || typeof node.type !== 'string') return
    const literal = node.type === 'Literal' || node.type === 'TemplateLiteral'
    if (literal && code.slice(node.start, node.end).includes(placeholder)) {
      // A property's name and an import's can't be computed in their place.
      if (/^(Import|Export)/.test(parent.type) && parent.type !== 'ImportExpression') throw new Error(`an import of ${node.value}`)
      if (parent.type === 'Property' && parent.key === node) throw new Error(`a property named ${node.value}`)
      edits.push(node)
      return
    }
    for (const [key, child] of Object.entries(node)) if (key !== 'type') visit(child, node)
  }
  visit(parseAst(code), null)
  for (const { start, end } of edits.sort((a, b) => b.start - a.start)) {
    code = `${code.slice(0, start)}(${code.slice(start, end)}).replaceAll("${placeholder}",${variable})${code.slice(end)}`
  }
  return code
}

// While the reader stays in the list of pages, the address changes and the links remain: they must not be relative to it.
const absolute = `for (const link of document.querySelectorAll('a[href^="."]')) link.setAttribute('href', link.pathname + link.hash)`

function html(text, file) {
  const up = '../'.repeat(file.split(path.sep).length - 1) || './'
  // A server shows 404.html at any address.
  const base = file === '404.html'
    ? `${variable}=location.pathname.replace(/\\/((docs|labs)\\/.*|[^/]*)$/,'/');document.write('<base href="'+${variable}+'">')`
    : `${variable}=new URL(${JSON.stringify(up)},location.href).pathname`
  return text
    .replace(/(<script(?![^>]*\bsrc=)[^>]*>)([\s\S]*?)(<\/script>)/g, (_, open, code, close) => open + script(code) + close)
    .replace(new RegExp(`( (?:href|src|content)=")${placeholder}`, 'g'), `$1${up}`)
    .replace('<head>', `<head><script>${base}</script>`)
    .replace('</body>', `<script>${absolute}</script></body>`)
}

/** relocate changes all files of a built site, and fails if a place is left in which it does not know what to do. */
export function relocate(folder) {
  for (const file of fs.readdirSync(folder, { recursive: true })) {
    const change = { '.html': html, '.js': script, '.css': (text, file) => text.replaceAll(placeholder, '../'.repeat(file.split(path.sep).length - 1)) }[path.extname(file)]
    if (!change) continue
    const name = path.join(folder, file)
    const changed = change(fs.readFileSync(name, 'utf8'), file)
    const rest = changed.replaceAll(`.replaceAll("${placeholder}"`, '')
    if (path.extname(file) !== '.js' && rest.replace(/<script[\s\S]*?<\/script>/g, '').includes(placeholder)) {
      throw new Error(`${file} has an address that can't be made relative`)
    }
    fs.writeFileSync(name, changed)
  }
}
