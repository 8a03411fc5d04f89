// The widths of texts.
let context: CanvasRenderingContext2D | null = null

/** The width of a text in pixels. */
export function widthOf(text: string, size: number, weight = 400): number {
  context ??= document.createElement('canvas').getContext('2d')
  context!.font = `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`
  return context!.measureText(text).width
}
