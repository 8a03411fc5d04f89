// The answer of /api/windows, and what follows from its indices: keys of a token, and receptive fields.
export interface Pattern {
  description: string
  head_group: number
  heads: number
  blocks: number[]
  key_grid: [number, number]
  key_leading: number
  groups: number
  group_size: number
  keys_per_group: number
  pairs: number
  computed_pairs: number
  all_pairs: number
  density: number
  padded: [number, number]
  tile: [number, number] | null
  arrangement: [number, number]
  shift: [number, number]
  members: number[] | null
  places: number[] | null
  regions: number[] | null
  key_rows: [number, number][] | null
  key_columns: [number, number][] | null
}

export interface Block {
  patterns: number[]
  attention_macs: number
  global_macs: number
  block_macs: number
}

export interface Stage {
  grid: [number, number]
  leading: number
  tokens: number
  blocks: Block[]
  patterns: Pattern[]
  receptive_field: { token: number; tokens: number[] }
}

export interface Answer {
  model: string
  image: [number, number]
  sides: number[]
  stages: Stage[]
}

/** A pattern with an index for each direction. slots: the places of the groups, group after group. */
export class Groups {
  readonly members: Int32Array
  readonly slotOf: Int32Array // of each token
  readonly slotAt: Int32Array // of each place of the padded map, row by row; -1: a token that has none
  private readonly bucket: Int32Array // of each slot: members of one bucket attend to each other

  constructor(readonly pattern: Pattern, readonly stage: Stage) {
    const [rows, columns] = pattern.padded
    this.members = pattern.members ? Int32Array.from(pattern.members) : Int32Array.from({ length: stage.tokens }, (_, token) => token)
    this.slotOf = new Int32Array(stage.tokens).fill(-1)
    this.slotAt = new Int32Array(rows * columns).fill(-1)
    this.bucket = new Int32Array(this.members.length)
    const regions = 1 + (pattern.regions ?? []).reduce((most, one) => Math.max(most, one), 0)
    this.members.forEach((token, slot) => {
      const place = pattern.places ? pattern.places[slot] : token - stage.leading
      if (place >= 0) this.slotAt[place] = slot
      if (token >= 0) this.slotOf[token] = slot
      this.bucket[slot] = this.groupOf(slot) * regions + (pattern.regions?.[slot] ?? 0)
    })
  }

  get isReduced(): boolean {
    return this.pattern.key_rows !== null
  }

  groupOf(slot: number): number {
    return Math.floor(slot / this.pattern.group_size)
  }

  /** The keys that any of these tokens attends to; of reduced keys, a token attends to all. */
  keysOf(tokens: Uint8Array): Uint8Array {
    const { pattern, members, bucket } = this
    if (this.isReduced) return new Uint8Array(pattern.key_leading + pattern.key_grid[0] * pattern.key_grid[1]).fill(1)
    const attended = new Set<number>()
    tokens.forEach((is, token) => is && attended.add(bucket[this.slotOf[token]]))
    const keys = new Uint8Array(this.stage.tokens)
    members.forEach((token, slot) => {
      if (token >= 0 && attended.has(bucket[slot])) keys[token] = 1
    })
    return keys
  }

  /** The tokens that those keys are made of. */
  tokensOf(tokens: Uint8Array): Uint8Array {
    const { pattern, stage } = this
    if (!this.isReduced) return this.keysOf(tokens)
    const found = new Uint8Array(stage.tokens).fill(1, 0, pattern.key_leading)
    const [rows, columns] = [covered(pattern.key_rows!, stage.grid[0]), covered(pattern.key_columns!, stage.grid[1])]
    rows.forEach((hasRow, row) => columns.forEach((hasColumn, column) => {
      if (hasRow && hasColumn) found[stage.leading + row * stage.grid[1] + column] = 1
    }))
    return found
  }
}

function covered(runs: [number, number][], side: number): boolean[] {
  const found = new Array<boolean>(side).fill(false)
  for (const [first, count] of runs) found.fill(true, first, first + count)
  return found
}

const known = new WeakMap<Pattern, Groups>()
export function groupsOf(stage: Stage, index: number): Groups {
  const pattern = stage.patterns[index]
  let found = known.get(pattern)
  if (!found) known.set(pattern, (found = new Groups(pattern, stage)))
  return found
}

export const only = (token: number, tokens: number) => new Uint8Array(tokens).fill(1, token, token + 1)
export const count = (mask: Uint8Array) => mask.reduce((sum, one) => sum + one, 0)

/** After how many blocks each token is part of the receptive field of `token`; 0: never. And the sizes of the fields. */
export function receptiveField(stage: Stage, token: number): { first: Uint8Array; sizes: number[] } {
  const first = new Uint8Array(stage.tokens)
  const sizes: number[] = []
  for (let last = 0; last < stage.blocks.length; last++) {
    if (sizes.at(-1) === stage.tokens) {
      sizes.push(stage.tokens)
      continue
    }
    let reached = only(token, stage.tokens)
    for (let block = last; block >= 0; block--) {
      const next = reached.slice() // by the residual connection
      for (const index of stage.blocks[block].patterns) {
        groupsOf(stage, index).tokensOf(reached).forEach((is, other) => is && (next[other] = 1))
      }
      reached = next
    }
    reached.forEach((is, other) => {
      if (is && !first[other]) first[other] = last + 1
    })
    sizes.push(count(reached))
  }
  return { first, sizes }
}

/** The windows of a stage before its shift. */
export function unshifted(stage: Stage, pattern: Pattern): number {
  return stage.patterns.findIndex((one) => one.head_group === pattern.head_group && !isShifted(one))
}
export const isShifted = (pattern: Pattern) => pattern.shift[0] > 0 || pattern.shift[1] > 0

// Query tokens: "7,3" is a row and a column, "lead0" the first leading token, as they are in the address.
export interface Place {
  row: number // as a fraction of the map, so that the place is the same on another grid
  column: number
  lead: number // the number of a leading token, or -1
}

export function tokenAt(place: Place, stage: Stage): number {
  const [rows, columns] = stage.grid
  if (place.lead >= 0 && place.lead < stage.leading) return place.lead
  const on = (fraction: number, side: number) => Math.min(side - 1, Math.floor(fraction * side))
  return stage.leading + on(place.row, rows) * columns + on(place.column, columns)
}

export function placeOf(token: number, stage: Stage): Place {
  const [rows, columns] = stage.grid
  if (token < stage.leading) return { row: 0.45, column: 0.45, lead: token }
  const place = token - stage.leading
  return { row: (Math.floor(place / columns) + 0.5) / rows, column: ((place % columns) + 0.5) / columns, lead: -1 }
}

export const LEADING = ['[CLS]', '[DIST]'] // a distilled DeiT has both

export function tokenName(token: number, stage: Stage): string {
  if (token < stage.leading) return LEADING[token]
  const place = token - stage.leading
  return `row ${Math.floor(place / stage.grid[1]) + 1}, column ${(place % stage.grid[1]) + 1}`
}

export function writeToken(token: number, stage: Stage): string {
  if (token < stage.leading) return `lead${token}`
  const place = token - stage.leading
  return `${Math.floor(place / stage.grid[1])},${place % stage.grid[1]}`
}

/** Returns null for a text that names no token of the stage. */
export function readToken(text: string, stage: Stage): number | null {
  const lead = /^lead(\d)$/.exec(text)
  if (lead) return Number(lead[1]) < stage.leading ? Number(lead[1]) : null
  const [row, column] = /^\d{1,4},\d{1,4}$/.test(text) ? text.split(',').map(Number) : [-1, -1]
  return row >= 0 && row < stage.grid[0] && column < stage.grid[1] ? stage.leading + row * stage.grid[1] + column : null
}

/** Rows with the runs of columns of these tokens, both from 1: [["7", "1–7, 10"], …]. */
export function asRows(mask: Uint8Array, grid: [number, number], leading: number): [string, string][] {
  const found: [string, string][] = []
  for (let lead = 0; lead < leading; lead++) if (mask[lead]) found.push([LEADING[lead], '–'])
  for (let row = 0; row < grid[0]; row++) {
    const runs: string[] = []
    for (let column = 0; column < grid[1]; column++) {
      if (!mask[leading + row * grid[1] + column]) continue
      const start = column
      while (column + 1 < grid[1] && mask[leading + row * grid[1] + column + 1]) column++
      runs.push(start === column ? `${start + 1}` : `${start + 1}–${column + 1}`)
    }
    if (runs.length) found.push([`${row + 1}`, runs.join(', ')])
  }
  return found
}
