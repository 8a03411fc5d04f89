// The keys that move the query token over the map.
import type { Stage } from './patterns'

/** The token after a key was pressed; null for a key that does not move it. */
export function moved(key: string, token: number, stage: Pick<Stage, 'grid' | 'leading'>): number | null {
  const [rows, columns] = stage.grid
  const lead = stage.leading
  if (token < lead) {
    if (key === 'ArrowDown') return lead + Math.min(token, columns - 1)
    if (key === 'ArrowRight') return Math.min(lead - 1, token + 1)
    return key === 'ArrowLeft' ? Math.max(0, token - 1) : null
  }
  const [row, column] = [Math.floor((token - lead) / columns), (token - lead) % columns]
  const at = (down: number, right: number) => lead + Math.min(rows - 1, Math.max(0, down)) * columns + Math.min(columns - 1, Math.max(0, right))
  switch (key) {
    case 'ArrowUp':
      return row === 0 && lead ? Math.min(column, lead - 1) : at(row - 1, column)
    case 'ArrowDown':
      return at(row + 1, column)
    case 'ArrowLeft':
      return at(row, column - 1)
    case 'ArrowRight':
      return at(row, column + 1)
    case 'Home':
      return at(row, 0)
    case 'End':
      return at(row, columns - 1)
    case 'PageUp':
      return at(0, column)
    case 'PageDown':
      return at(rows - 1, column)
    default:
      return null
  }
}
