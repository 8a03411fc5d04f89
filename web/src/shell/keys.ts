// Whether a key press is for the shell: not while someone types or moves a control with the keyboard.

const TYPED = 'textarea, [contenteditable], input:not([type=range], [type=checkbox], [type=radio], [type=button])'
let clicked: Element | null = null

/** Remembers the control that was used with the pointer. Keys go to the shell then: presenters click, then press "next". */
export function noteClick(event: PointerEvent): void {
  clicked = (event.target as Element).closest('input, select')
}

export function isForShell(event: KeyboardEvent): boolean {
  const target = event.target as Element
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return false
  if (target.closest(TYPED) || target.closest('dialog')) return false
  const control = target.closest('input, select')
  if (event.key === 'Tab' || event.key.startsWith('Arrow')) clicked = null
  return !control || control === clicked
}
