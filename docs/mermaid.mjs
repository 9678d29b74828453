// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Draws Mermaid diagrams in headless Chromium, for the site and for the slides.
import { execFileSync, spawnSync } from 'node:child_process'
import crypto from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { createRequire } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'

const flags = [
  '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--no-default-browser-check', '--disable-extensions',
  '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-breakpad', '--disable-dev-shm-usage',
  '--virtual-time-budget=600000', '--dump-dom',
]
// The widest of the usual fonts measures the texts, so that no reader's font needs more room.
const options = { startOnLoad: false, securityLevel: 'strict', fontFamily: '"DejaVu Sans", Verdana, sans-serif', flowchart: { useMaxWidth: true } }

const chromium = () =>
  ['chromium', 'chromium-browser', 'google-chrome'].find((name) => spawnSync(name, ['--version'], { stdio: 'ignore' }).status === 0)

// The page that Chromium opens: it draws all diagrams, one after the other, and leaves them in its body as JSON.
const page = (mermaid, sources, themes) => `<!doctype html><meta charset="utf-8"><script src="${pathToFileURL(mermaid)}"></script><body><script type="module">
  const drawn = {}
  let n = 0
  for (const source of ${JSON.stringify(sources).replaceAll('<', '\\u003c')}) {
    drawn[source] = {}
    for (const [name, theme] of Object.entries(${JSON.stringify(themes)})) {
      mermaid.initialize({ ...${JSON.stringify(options)}, ...theme })
      try { drawn[source][name] = (await mermaid.render('diagram-' + ++n, source)).svg } catch (error) { drawn[source] = { error: String(error) }; break }
    }
  }
  document.body.textContent = encodeURIComponent(JSON.stringify(drawn))
</script>`

/** diagramsIn returns the sources of the diagrams in Markdown pages, each once. */
export const diagramsIn = (pages) =>
  [...new Set(pages.flatMap((content) => [...content.matchAll(/^```mermaid\n([\s\S]*?)^```$/gm)].map((match) => match[1])))]

/**
 * draw returns the pictures of diagrams, by their sources: each as SVG in every theme, by the theme's name. It keeps them in
 * .cache/<user>/diagrams. The user is the site or the slides, and has Mermaid in the node_modules beside the module that calls.
 * Without Chromium it returns no pictures, and the diagrams stay text.
 */
export function draw(user, caller, sources, themes) {
  if (sources.length === 0) return {}
  const mermaid = path.join(path.dirname(createRequire(caller).resolve('@mermaid-js/tiny')), 'mermaid.tiny.js')
  const key = crypto.createHash('sha256').update(JSON.stringify([sources, options, themes, fs.readFileSync(mermaid, 'utf8')])).digest('hex')
  const cache = path.join(fileURLToPath(new URL('..', import.meta.url)), '.cache', user, 'diagrams', `${key}.json`)
  if (fs.existsSync(cache)) return JSON.parse(fs.readFileSync(cache, 'utf8'))
  const program = chromium()
  if (!program) {
    console.warn('The diagrams stay text: to draw them, install Chromium (Debian: apt-get install chromium).')
    return {}
  }
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'diagrams-'))
  try {
    const file = path.join(folder, 'diagrams.html')
    fs.writeFileSync(file, page(mermaid, sources, themes))
    const output = execFileSync(program, [...flags, `--user-data-dir=${folder}/profile`, pathToFileURL(file).href], {
      encoding: 'utf8', maxBuffer: 1 << 28, timeout: 300_000, stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, HOME: folder, XDG_CONFIG_HOME: folder, XDG_CACHE_HOME: folder },
    })
    const body = output.match(/<body>\s*([\w%.~!*'()-]+)\s*<\/body>/)
    if (!body) throw new Error(`Chromium drew no diagrams:\n${output.slice(0, 2000)}`)
    const drawn = JSON.parse(decodeURIComponent(body[1]))
    for (const [source, { error }] of Object.entries(drawn)) if (error) throw new Error(`this diagram can't be drawn: ${error}\n${source}`)
    fs.mkdirSync(path.dirname(cache), { recursive: true })
    fs.writeFileSync(cache, JSON.stringify(drawn))
    return drawn
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }
}
