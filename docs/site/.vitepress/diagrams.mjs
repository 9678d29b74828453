// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Draws the Mermaid diagrams of all pages when the site is built, so that a reader's browser has nothing to compute.
import { diagramsIn, draw as drawAll } from '../../mermaid.mjs'
import { pages, read } from './sources.mjs'

const themes = {
  light: { theme: 'neutral' },
  dark: { theme: 'dark', themeVariables: { edgeLabelBackground: '#2b2b2b' } },
}

/** draw returns the pictures of all diagrams, by their sources: each as SVG for the light and for the dark theme. */
export const draw = () => drawAll('site', import.meta.url, diagramsIn(pages().map(read)), themes)
