// Images of numbers: one pixel per number, to be shown enlarged.

/** Red, green, blue and, unless opaque, alpha: from 0 to 255. */
export type Color = number[]

export const gray = (share: number): Color => Array(3).fill(255 * Math.max(0, Math.min(1, share)))

export function fill(canvas: HTMLCanvasElement, columns: number, rows: number, color: (index: number) => Color): HTMLCanvasElement {
  canvas.width = columns
  canvas.height = rows
  const context = canvas.getContext('2d')!
  const image = context.createImageData(columns, rows)
  for (let index = 0; index < columns * rows; index++) {
    const one = color(index)
    for (let channel = 0; channel < 3; channel++) image.data[4 * index + channel] = one[channel]
    image.data[4 * index + 3] = one[3] ?? 255
  }
  context.putImageData(image, 0, 0)
  return canvas
}

let canvas: HTMLCanvasElement | undefined // made when it is used: tests read the figures without a document
function shared(): HTMLCanvasElement {
  if (!canvas) {
    canvas = document.createElement('canvas')
    canvas.getContext('2d', { willReadFrequently: true })
  }
  return canvas
}

/** The image as an address. */
export const imageOf = (columns: number, rows: number, color: (index: number) => Color) => fill(shared(), columns, rows, color).toDataURL()
