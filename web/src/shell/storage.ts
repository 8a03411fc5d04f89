// Choices that outlast the page. A file opened from disk may have no storage: then they last as long as the page.
const name = (key: string) => `patchword-lab-${key}`

export function stored(key: string): string | null {
  try {
    return localStorage.getItem(name(key))
  } catch {
    return null
  }
}

export function store(key: string, value: string): void {
  try {
    localStorage.setItem(name(key), value)
  } catch {
    // No storage.
  }
}
