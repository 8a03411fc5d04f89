// A colour and a shape per family, so that nothing depends on colour alone.
const COLORS = ['--c-linear-1', '--c-attention-1', '--c-ffn-1', '--c-other-1', '--text', '--c-more-1', '--bad', '--quiet']
const SHAPES: ((r: number) => string)[] = [
  (r) => `M${-r} 0A${r} ${r} 0 1 0 ${r} 0A${r} ${r} 0 1 0 ${-r} 0Z`,
  (r) => polygon(4, r * 1.2, 45),
  (r) => polygon(3, r * 1.35, -90),
  (r) => polygon(4, r * 1.3, 0),
  (r) => polygon(3, r * 1.35, 90),
  (r) => polygon(5, r * 1.25, -90),
  (r) => cross(r * 1.15),
]

function polygon(corners: number, radius: number, from: number): string {
  const points = Array.from({ length: corners }, (_, corner) => {
    const angle = ((from + (corner * 360) / corners) * Math.PI) / 180
    return `${(radius * Math.cos(angle)).toFixed(2)} ${(radius * Math.sin(angle)).toFixed(2)}`
  })
  return `M${points.join('L')}Z`
}

function cross(radius: number): string {
  const [r, t] = [radius, radius * 0.4]
  return `M${-t} ${-r}H${t}V${-t}H${r}V${t}H${t}V${r}H${-t}V${t}H${-r}V${-t}H${-t}Z`
}

export interface Marker {
  color: string
  path: (radius: number) => string
}
export const markerOf = (index: number): Marker => ({ color: `var(${COLORS[index % COLORS.length]})`, path: SHAPES[index % SHAPES.length] })
