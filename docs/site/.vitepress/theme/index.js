// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// The default theme with the fonts of the reader's system: nothing is loaded for letters.
import theme from 'vitepress/theme-without-fonts'
import './style.css'

export default theme

// Paper is white: browsers print no background, and the text of the dark theme would be pale on it.
if (!import.meta.env.SSR) {
  const { classList } = document.documentElement
  let dark = false
  matchMedia('print').addEventListener('change', ({ matches: printing }) => {
    if (printing) dark = classList.contains('dark')
    classList.toggle('dark', dark && !printing)
  })
}
