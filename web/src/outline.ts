// The pages in their order, in groups, with the key of each. pages.json also lists the fields that each page reads
// from its address; the server checks the views of lessons with it.
import about from './pages.json'
import type { Page } from './pages'

export interface Entry extends Page {
  about: string
  key: string
}

export interface Group {
  title: string
  entries: Entry[]
}

export const GROUPS = Symbol() // of the context in which pages find the groups

const LETTERS: Record<string, string> = { start: 's', lessons: 'l' }
const DIGITS = '1234567890-'

/** The groups of those pages that exist; pages that pages.json does not know come last, and have no key. */
export function arranged(pages: Page[]): Group[] {
  const digits = about.filter((one) => !LETTERS[one.id])
  const groups: Group[] = []
  for (const page of [...pages].sort((a, b) => placeOf(a) - placeOf(b))) {
    const one = about[placeOf(page)]
    const title = one?.group ?? ''
    if (groups.at(-1)?.title !== title) groups.push({ title, entries: [] })
    groups.at(-1)!.entries.push({ ...page, about: one?.about ?? '', key: LETTERS[page.id] ?? DIGITS[digits.indexOf(one)] ?? '' })
  }
  return groups
}

function placeOf(page: Page): number {
  const found = about.findIndex((one) => one.id === page.id)
  return found < 0 ? about.length : found
}
