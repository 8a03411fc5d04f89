// The state of the page is its hash: #/cost?model=vit-exercise&width=64. While a lesson is on, the hash has it, too:
// &lesson=bert.2 is its second step. Pages neither see nor write this field.
export interface Place {
  name: string
  step: number
}

export interface Address {
  page: string
  query: Record<string, string>
  lesson: Place | null
}

export function readAddress(hash = location.hash): Address {
  const [path, text = ''] = hash.replace(/^#\/?/, '').split('?')
  const { lesson, ...query } = Object.fromEntries(new URLSearchParams(text))
  return { page: path, query, lesson: placeOf(lesson) }
}

function placeOf(text = ''): Place | null {
  const found = /^([a-z0-9-]+)\.([1-9][0-9]?)$/.exec(text)
  return found && { name: found[1], step: Number(found[2]) }
}

export function addressOf(page: string, query: Record<string, string | number> = {}, lesson: Place | null = null): string {
  const fields = lesson ? { ...query, lesson: `${lesson.name}.${lesson.step}` } : query
  const text = new URLSearchParams(Object.entries(fields).map(([name, value]) => [name, String(value)])).toString()
  return `#/${page}${text ? `?${text}` : ''}`
}

/** Replaces the address without a new entry in the history, at most every 200 ms: browsers limit it. */
let timer: ReturnType<typeof setTimeout> | undefined
export function writeAddress(page: string, query: Record<string, string | number>): void {
  clearTimeout(timer)
  timer = setTimeout(() => {
    const now = readAddress()
    if (now.page === page || location.hash === '') history.replaceState(null, '', addressOf(page, query, now.lesson))
  }, 200)
}
