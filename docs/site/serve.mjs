// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Serves out/site to this machine only: node serve.mjs PORT
import path from 'node:path'
import { preview } from 'vite'
import { root } from './.vitepress/sources.mjs'

const server = await preview({
  root: path.join(root, 'out'), build: { outDir: 'site' }, configFile: false, appType: 'mpa',
  preview: { host: 'localhost', port: Number(process.argv[2]), strictPort: true },
}).catch((error) => {
  console.error(`The site can't be served: ${error.message}. Another port: make docs-serve PORT=4174`)
  process.exit(1)
})
server.printUrls()
