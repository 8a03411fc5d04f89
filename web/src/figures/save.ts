// Saves figures and data: SVG, PNG, CSV, JSON.

export interface Table {
  columns: string[]
  rows: (string | number)[][]
}

const STYLES = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-linecap', 'font-size',
  'font-family', 'font-weight', 'font-style', 'text-anchor', 'dominant-baseline', 'image-rendering']

/** The figure as a document of its own: computed styles become attributes. */
export function svgText(figure: SVGSVGElement): string {
  const copy = figure.cloneNode(true) as SVGSVGElement
  const originals = figure.querySelectorAll('*')
  copy.querySelectorAll('*').forEach((element, index) => {
    const style = getComputedStyle(originals[index])
    const isText = element.tagName === 'text' || element.tagName === 'tspan'
    for (const name of STYLES) {
      if (!isText && /^(font|text|dominant)/.test(name)) continue
      const value = style.getPropertyValue(name)
      if (value) element.setAttribute(name, value)
    }
    element.removeAttribute('class')
    element.removeAttribute('style')
  })
  const { width, height } = figure.getBoundingClientRect()
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg')
  copy.setAttribute('width', String(Math.round(width)))
  copy.setAttribute('height', String(Math.round(height)))
  copy.removeAttribute('class')
  copy.removeAttribute('style')
  const background = document.createElementNS('http://www.w3.org/2000/svg', 'rect')
  const box = figure.viewBox.baseVal
  const place: [string, number][] = [['x', box.x], ['y', box.y], ['width', box.width || width], ['height', box.height || height]]
  for (const [name, value] of place) background.setAttribute(name, String(value))
  background.setAttribute('fill', getComputedStyle(document.body).backgroundColor)
  copy.insertBefore(background, copy.firstChild)
  return new XMLSerializer().serializeToString(copy)
}

export async function png(figure: SVGSVGElement, scale = 2): Promise<Blob> {
  const { width, height } = figure.getBoundingClientRect()
  const address = URL.createObjectURL(new Blob([svgText(figure)], { type: 'image/svg+xml' }))
  try {
    const image = new Image()
    image.src = address
    await image.decode()
    const canvas = document.createElement('canvas')
    canvas.width = Math.round(width * scale)
    canvas.height = Math.round(height * scale)
    canvas.getContext('2d')!.drawImage(image, 0, 0, canvas.width, canvas.height)
    return await new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error('no PNG'))), 'image/png'))
  } finally {
    URL.revokeObjectURL(address)
  }
}

export function csv({ columns, rows }: Table): string {
  // A text that starts like a formula would be run by a spreadsheet.
  const cell = (value: string | number) => {
    const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value)
    return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text
  }
  return [columns, ...rows].map((row) => row.map(cell).join(',')).join('\r\n') + '\r\n'
}

export function download(name: string, content: Blob | string, type = 'text/plain'): void {
  const blob = typeof content === 'string' ? new Blob([content], { type: `${type};charset=utf-8` }) : content
  const link = document.createElement('a')
  link.href = URL.createObjectURL(blob)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}
