// The images of a set as tiles of one image.
import type { Points } from './data'

export interface Sprite {
  url: string
  tile: number
  columns: number
  width: number
  height: number
}

export function spriteFor(url: string, points: Points): Sprite {
  const { tile, columns, count } = points
  return { url, tile, columns, width: columns * tile, height: Math.ceil(count / columns) * tile }
}
