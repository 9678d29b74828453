// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Builds the site into out/site, and says how far it is.
import fs from 'node:fs'
import path from 'node:path'
import { placeholder, relocate } from './.vitepress/relocate.mjs'
import { pages, root } from './.vitepress/sources.mjs'

const started = Date.now()
const seconds = () => `${((Date.now() - started) / 1000).toFixed(0)} s`
const out = path.join(root, 'out/site')

// A build that fails leaves the site of before.
const temporary = `${out}.new`
fs.rmSync(temporary, { recursive: true, force: true })
console.log(`The site of ${pages().length} pages is built:`)
process.env.SITE_BASE = placeholder
const { build } = await import('vitepress')
await build(import.meta.dirname, { outDir: temporary })
relocate(temporary)
// They load nothing and need no address, and their policy forbids every script but their own. `make docs` has written them.
fs.cpSync(path.join(root, '.cache/site/runs'), path.join(temporary, 'docs/runs'), { recursive: true })
fs.rmSync(out, { recursive: true, force: true })
fs.renameSync(temporary, out)
const size = fs.readdirSync(out, { recursive: true, withFileTypes: true })
  .reduce((sum, entry) => sum + (entry.isFile() ? fs.statSync(path.join(entry.parentPath ?? entry.path, entry.name)).size : 0), 0)
console.log(`The site is in out/site (${(size / 1e6).toFixed(1)} MB, ${seconds()}). Any file server can show it: make docs-serve.`)
