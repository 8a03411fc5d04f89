// Draws a list of shapes on a canvas, or writes it as SVG.
import type { Shape } from './surface'

/** A side of its own colour hides the gap to the next polygon. */
const widthOf = ({ fill, stroke }: { fill: string; stroke: string }) => (fill === stroke ? 1.2 : 0.6)

export function paint(context: CanvasRenderingContext2D, shapes: Shape[], family: string): void {
  context.lineJoin = 'round'
  for (const shape of shapes) {
    switch (shape.kind) {
      case 'polygon': {
        const { points } = shape
        context.beginPath()
        context.moveTo(points[0], points[1])
        for (let index = 2; index < points.length; index += 2) context.lineTo(points[index], points[index + 1])
        context.closePath()
        context.fillStyle = shape.fill
        context.strokeStyle = shape.stroke
        context.lineWidth = widthOf(shape)
        context.fill()
        context.stroke()
        break
      }
      case 'lines':
        context.beginPath()
        for (let index = 0; index < shape.points.length; index += 4) {
          context.moveTo(shape.points[index], shape.points[index + 1])
          context.lineTo(shape.points[index + 2], shape.points[index + 3])
        }
        context.strokeStyle = shape.stroke
        context.lineWidth = shape.width
        context.stroke()
        break
      case 'dot':
        context.beginPath()
        context.arc(shape.x, shape.y, shape.radius, 0, 2 * Math.PI)
        context.fillStyle = shape.fill
        context.strokeStyle = shape.stroke
        context.lineWidth = 1.5
        context.fill()
        context.stroke()
        break
      case 'text':
        context.font = `${shape.bold ? 650 : 400} ${shape.size}px ${family}`
        context.textAlign = shape.anchor === 'middle' ? 'center' : shape.anchor
        context.fillStyle = shape.fill
        context.fillText(shape.text, shape.x, shape.y)
    }
  }
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
const escaped = (text: string) => text.replace(/[&<>"]/g, (one) => ENTITIES[one])
const places = (points: number[]) => points.map((one) => one.toFixed(2))

export function svg(shapes: Shape[], width: number, height: number, ground: string, family: string): string {
  const lines = shapes.map((shape) => {
    switch (shape.kind) {
      case 'polygon': return `<polygon points="${places(shape.points).join(' ')}" fill="${shape.fill}" stroke="${shape.stroke}" stroke-width="${widthOf(shape)}" stroke-linejoin="round"/>`
      case 'lines': {
        const at = places(shape.points)
        const path = at.reduce((text, one, index) => text + (index % 4 === 0 ? `M${one} ` : index % 4 === 2 ? `L${one} ` : one), '')
        return `<path d="${path}" fill="none" stroke="${shape.stroke}" stroke-width="${shape.width}"/>`
      }
      case 'dot': return `<circle cx="${shape.x.toFixed(2)}" cy="${shape.y.toFixed(2)}" r="${shape.radius}" fill="${shape.fill}" stroke="${shape.stroke}" stroke-width="1.5"/>`
      case 'text': return `<text x="${shape.x.toFixed(2)}" y="${shape.y.toFixed(2)}" font-size="${shape.size}" text-anchor="${shape.anchor}" fill="${shape.fill}"${shape.bold ? ' font-weight="650"' : ''}>${escaped(shape.text)}</text>`
    }
  })
  const size = `width="${Math.round(width)}" height="${Math.round(height)}" viewBox="0 0 ${width} ${height}"`
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="${escaped(family)}"><rect width="100%" height="100%" fill="${ground}"/>\n${lines.join('\n')}\n</svg>\n`
}

export async function png(shapes: Shape[], width: number, height: number, ground: string, family: string, scale = 2): Promise<Blob> {
  const canvas = document.createElement('canvas')
  canvas.width = Math.round(width * scale)
  canvas.height = Math.round(height * scale)
  const context = canvas.getContext('2d')!
  context.scale(scale, scale)
  context.fillStyle = ground
  context.fillRect(0, 0, width, height)
  paint(context, shapes, family)
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error('no PNG'))), 'image/png'))
}
