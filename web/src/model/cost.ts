// Evaluates the symbolic formulas of a cost (Cost.to_json of patchword.analysis.cost) for changed fields, in the page.

export type Fields = Record<string, number>

export interface Count {
  formula: string
  value: number
  symbols: Record<string, number>
}

export interface Step {
  part: string
  label: string
  kind: string
  macs?: Count
  parameters?: Count
}

export interface CostJson {
  model: string
  input: number[]
  parameters: number
  macs: Record<string, number>
  convention: string
  fields: Record<string, unknown>
  sizes: { symbol: string; meaning: string; value: number; formula?: string }[]
  steps: Step[]
  groups: { title: string; parts: string[]; times: number; macs: number; parameters: number }[]
}

export interface Size {
  symbol: string
  meaning: string
  formula: string
  numbers: string
  value: number
}

export interface Computed {
  formula: string
  numbers: string
  value: number
}

export interface Line {
  label: string
  kind: string
  macs: Computed | null
  parameters: Computed | null
}

export interface Group {
  title: string
  isBlock: boolean
  times: number
  lines: Line[]
  macs: number
  parameters: number
}

export interface Cost {
  model: string
  fields: Fields
  sizes: Size[]
  groups: Group[]
  macs: number
  parameters: number
  kinds: Record<string, number>
}

/** The letters that a field sets. Everything else follows by the formulas of the sizes. */
const LETTERS: Record<string, string[]> = { image: ['H_0', 'W_0'], patch: ['P'], width: ['D'], heads: ['h'], hidden: ['F'] }
export const FIELDS = ['image', 'patch', 'width', 'depth', 'heads', 'mlp_ratio'] as const

export type Letters = Record<string, number>

/** Evaluates sums, products and quotients: "(H_0 / P) x (W_0 / P) + 1", "ceil(H_0 / s)". */
export function evaluate(formula: string, letters: Letters): number {
  const tokens = formula.match(/[A-Za-z0-9_]+|[()+/]/g) ?? []
  let at = 0
  const factor = (): number => {
    const token = tokens[at++]
    if (token === '(' || token === 'ceil') {
      if (token === 'ceil') at++
      const value = sum()
      at++
      return token === 'ceil' ? Math.ceil(value) : value
    }
    const value = letters[token] ?? Number(token)
    if (Number.isNaN(value)) throw new Error(`the formula ${formula} has an unknown letter ${token}`)
    return value
  }
  const product = (): number => {
    let value = factor()
    while (tokens[at] === 'x' || tokens[at] === '/') value = tokens[at++] === 'x' ? value * factor() : value / factor()
    return value
  }
  const sum = (): number => {
    let value = product()
    while (tokens[at] === '+') {
      at++
      value += product()
    }
    return value
  }
  return sum()
}

/** The formula with numbers in place of letters. */
export function withNumbers(formula: string, letters: Letters): string {
  return formula.replace(/[A-Za-z0-9_]+/g, (token) => (token === 'x' ? 'x' : token in letters ? String(letters[token]) : token))
}

/** The numeric fields of a model that the page can change by itself. */
export function fieldsOf(cost: CostJson): Fields {
  const fields: Fields = {}
  for (const name of [...FIELDS, 'hidden']) {
    const value = cost.fields[name]
    if (typeof value === 'number') fields[name] = value
  }
  if (fields.hidden && fields.width) fields.mlp_ratio = fields.hidden / fields.width
  delete fields.hidden
  return fields
}

/** The fields that have a slider: none if the stages of the model differ. */
export function adjustable(cost: CostJson): string[] {
  const letters = new Set(cost.sizes.map((size) => size.symbol))
  const blocks = cost.groups.filter(isBlock)
  const fields = fieldsOf(cost)
  if (letters.size !== cost.sizes.length || blocks.length !== 1 || blocks[0].times !== fields.depth) return []
  return FIELDS.filter((name) => {
    if (!(name in fields)) return false
    if (name === 'depth') return true
    if (name === 'mlp_ratio') return letters.has('F')
    return LETTERS[name].every((letter) => letters.has(letter))
  })
}

function isBlock(group: { title: string }): boolean {
  return group.title.startsWith('block')
}

/** Computes every line of a cost anew for these fields; without fields, with the numbers of the server. */
export function compute(cost: CostJson, changed: Fields = {}): Cost {
  const can = adjustable(cost)
  const fields = { ...fieldsOf(cost), ...changed }
  const sizes = can.length ? newSizes(cost, fields, can) : ownSizes(cost)
  const letters: Letters = Object.fromEntries(sizes.map((size) => [size.symbol, size.value]))
  const counted = (count: Count | undefined): Computed | null => {
    if (!count) return null
    const { formula } = count
    const values = can.length ? letters : count.symbols
    return { formula, numbers: withNumbers(formula, values), value: evaluate(formula, values) }
  }
  const groups = cost.groups.map((group): Group => {
    const lines = cost.steps
      .filter((step) => step.part === group.parts[0] || step.part.startsWith(`${group.parts[0]}.`))
      .map((step) => ({ label: step.label, kind: step.kind, macs: counted(step.macs), parameters: counted(step.parameters) }))
    const total = (what: 'macs' | 'parameters') => lines.reduce((sum, line) => sum + (line[what]?.value ?? 0), 0)
    const times = can.length && isBlock(group) ? fields.depth : group.times
    return { title: group.title, isBlock: isBlock(group), times, lines, macs: total('macs'), parameters: total('parameters') }
  })
  const kinds: Record<string, number> = {}
  for (const group of groups) {
    for (const line of group.lines) kinds[line.kind] = (kinds[line.kind] ?? 0) + group.times * (line.macs?.value ?? 0)
  }
  const total = (what: 'macs' | 'parameters') => groups.reduce((sum, group) => sum + group.times * group[what], 0)
  return { model: cost.model, fields, sizes, groups, macs: total('macs'), parameters: total('parameters'), kinds }
}

function newSizes(cost: CostJson, fields: Fields, can: string[]): Size[] {
  const given: Letters = {}
  for (const name of can) for (const letter of LETTERS[name] ?? []) given[letter] = fields[name]
  if (can.includes('mlp_ratio')) given.F = Math.round(fields.mlp_ratio * fields.width)
  const letters: Letters = {}
  return cost.sizes.map(({ symbol, meaning, value, formula = '' }) => {
    const ratio = symbol === 'F' && can.includes('mlp_ratio') ? `${fields.mlp_ratio} x D` : ''
    const text = ratio || (symbol in given ? '' : formula)
    letters[symbol] = given[symbol] ?? (text ? evaluate(text, letters) : value)
    return { symbol, meaning, formula: text, numbers: withNumbers(text, letters), value: letters[symbol] }
  })
}

function ownSizes(cost: CostJson): Size[] {
  return cost.sizes.map(({ symbol, meaning, value, formula = '' }) => ({ symbol, meaning, formula, numbers: '', value }))
}

/** MACs of the whole model at each image side. */
export function overResolution(cost: CostJson, fields: Fields, sides: number[]): { side: number; cost: Cost }[] {
  return sides.map((side) => ({ side, cost: compute(cost, { ...fields, image: side }) }))
}

export interface Share {
  label: string
  kind: string
  macs: number
}

/** MACs by label over the whole model, in the order in which the parts run. */
export function shares(cost: Cost): Share[] {
  const found = new Map<string, Share>()
  for (const group of cost.groups) {
    for (const line of group.lines) {
      if (!line.macs) continue
      const share = found.get(line.label) ?? { label: line.label, kind: line.kind, macs: 0 }
      share.macs += group.times * line.macs.value
      found.set(line.label, share)
    }
  }
  return [...found.values()]
}

/** What is wrong with these fields, or nothing. */
export function problemOf(fields: Fields): string {
  const { image, patch, width, heads } = fields
  if (image && patch && image % patch) return `An image of ${image} pixels cannot be cut into patches of ${patch}.`
  if (width && heads && width % heads) return `A width of ${width} cannot be divided among ${heads} heads.`
  return ''
}
