// Labels beside points that overlap neither each other nor a point.
export interface Point {
  x: number
  y: number
  width: number
  first?: boolean // placed before the others
}
export interface Place {
  x: number
  y: number
  far: boolean // drawn with a line to its point
}
type Box = [left: number, top: number, right: number, bottom: number]

const overlaps = (a: Box, b: Box) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]

/** The left end of each label's base line; null where there is no room. size: of the type; radius: of a point. */
export function places(points: Point[], frame: Box, size: number, radius: number): (Place | null)[] {
  const found: (Place | null)[] = points.map(() => null)
  const taken: Box[] = points.map(({ x, y }) => [x - radius, y - radius, x + radius, y + radius])
  const order = points.map((_, index) => index).sort((a, b) => Number(points[b].first ?? false) - Number(points[a].first ?? false))
  for (const index of order) {
    const point = points[index]
    for (const { x, y, far } of candidates(point, size, radius)) {
      const box: Box = [x - 0.15 * size, y - 0.8 * size, x + point.width + 0.15 * size, y + 0.25 * size]
      const inside = box[0] >= frame[0] && box[1] >= frame[1] && box[2] <= frame[2] && box[3] <= frame[3]
      if (!inside || taken.some((other) => overlaps(box, other))) continue
      taken.push(box)
      found[index] = { x, y, far }
      break
    }
  }
  return found
}

function* candidates({ x, y, width }: Point, size: number, radius: number): Generator<Place> {
  for (const distance of [0.35, 0.9, 1.6, 2.4]) {
    const gap = radius + distance * size
    const far = distance > 0.5
    const middle = y + 0.3 * size
    yield { x: x + gap, y: middle, far }
    yield { x: x - gap - width, y: middle, far }
    yield { x: x - width / 2, y: y - gap, far }
    yield { x: x - width / 2, y: y + gap + 0.65 * size, far }
    yield { x: x + 0.7 * gap, y: y - 0.7 * gap, far }
    yield { x: x + 0.7 * gap, y: y + 0.7 * gap + 0.6 * size, far }
    yield { x: x - 0.7 * gap - width, y: y - 0.7 * gap, far }
    yield { x: x - 0.7 * gap - width, y: y + 0.7 * gap + 0.6 * size, far }
  }
}
