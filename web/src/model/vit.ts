// A pre-norm ViT with learned positions and a [CLS] token, as src/patchword/models/vision/vit.py builds it.
// Returns the logits and every attention map. Computes in float64, the only float of JavaScript, which avoids a
// conversion at every product. Matrices are row-major; weights are (out, in), as in torch.
import { readSafetensors, type Weights } from './safetensors'

export { readSafetensors }

export interface VitConfig {
  image: number
  channels: number
  classes: number
  width: number
  depth: number
  heads: number
  hidden: number
  patch: number
  position: string
  activation: string
  norm_eps: number
}

export interface ModelCard {
  model: string
  config: VitConfig
  labels: string[]
  normalization: { mean: number[]; std: number[] }
}

export interface Forward {
  logits: Float64Array
  /** One per layer: (heads, tokens, tokens), rows are queries. */
  attention: Float64Array[]
}

export function checkCard(card: ModelCard): void {
  const { position, activation, channels, image } = card.config
  if (position !== 'learned') throw new Error(`position "${position}": only learned positions are supported`)
  if (activation !== 'gelu') throw new Error(`activation "${activation}": only gelu is supported`)
  if (channels !== 1 || typeof image !== 'number') throw new Error('only square gray-scale images are supported')
}

/** pixels: image x image values from 0 to 1; the model's own normalization is applied. */
export function forward(card: ModelCard, weights: Weights, pixels: Float32Array): Forward {
  const { image, width, depth, heads, hidden, patch, classes, norm_eps: eps } = card.config
  const get = (name: string) => {
    const tensor = weights[name]
    if (!tensor) throw new Error(`the weights have no tensor ${name}`)
    return tensor.values
  }
  const side = image / patch
  const tokens = side * side + 1
  const x = new Float64Array(tokens * width)
  embed(x, pixels, card, get)

  const normed = new Float64Array(tokens * width)
  const qkv = new Float64Array(tokens * 3 * width)
  const mixed = new Float64Array(tokens * width)
  const inner = new Float64Array(tokens * hidden)
  const change = new Float64Array(tokens * width)
  const attention: Float64Array[] = []
  for (let layer = 0; layer < depth; layer++) {
    const block = `stages.0.encoder.blocks.${layer}`
    const att = `${block}.attention`
    const ffn = `${block}.feed_forward`
    layerNorm(normed, x, width, get(`${att}.norm.weight`), get(`${att}.norm.bias`), eps)
    const joint = `${att}.sublayer.projection.joint`
    linear(qkv, normed, get(`${joint}.weight`), get(`${joint}.bias`), tokens, width, 3 * width)
    attention.push(attend(mixed, qkv, tokens, width, heads))
    linear(change, mixed, get(`${att}.sublayer.output.weight`), get(`${att}.sublayer.output.bias`), tokens, width, width)
    add(x, change)
    layerNorm(normed, x, width, get(`${ffn}.norm.weight`), get(`${ffn}.norm.bias`), eps)
    linear(inner, normed, get(`${ffn}.sublayer.up.weight`), get(`${ffn}.sublayer.up.bias`), tokens, width, hidden)
    for (let i = 0; i < inner.length; i++) inner[i] = gelu(inner[i])
    linear(change, inner, get(`${ffn}.sublayer.down.weight`), get(`${ffn}.sublayer.down.bias`), tokens, hidden, width)
    add(x, change)
  }
  const cls = new Float64Array(width)
  layerNorm(cls, x.subarray(0, width), width, get('norm.weight'), get('norm.bias'), eps)
  const logits = new Float64Array(classes)
  linear(logits, cls, get('head.linear.weight'), get('head.linear.bias'), 1, width, classes)
  return { logits, attention }
}

function embed(x: Float64Array, pixels: Float32Array, card: ModelCard, get: (name: string) => Float64Array): void {
  const { image, width, patch } = card.config
  const mean = card.normalization.mean[0]
  const std = card.normalization.std[0]
  const side = image / patch
  const area = patch * patch
  const patches = new Float64Array(side * side * area)
  for (let row = 0; row < image; row++) {
    for (let column = 0; column < image; column++) {
      const index = Math.floor(row / patch) * side + Math.floor(column / patch)
      patches[index * area + (row % patch) * patch + (column % patch)] = (pixels[row * image + column] - mean) / std
    }
  }
  const embedded = x.subarray(width)
  linear(embedded, patches, get('stages.0.stem.weight'), get('stages.0.stem.bias'), side * side, area, width)
  x.set(get('stages.0.prefix.tokens'))
  add(x, get('stages.0.positions.table'))
}

function linear(
  out: Float64Array, x: Float64Array, weight: Float64Array, bias: Float64Array, rows: number, inputs: number, outputs: number,
): void {
  // Two rows and four outputs at a time: eight sums for six values that are read.
  const evenRows = rows - (rows % 2)
  const fours = outputs - (outputs % 4)
  for (let column = 0; column < fours; column += 4) {
    const w0 = column * inputs
    const w1 = w0 + inputs
    const w2 = w1 + inputs
    const w3 = w2 + inputs
    for (let row = 0; row < evenRows; row += 2) {
      const x0 = row * inputs
      const x1 = x0 + inputs
      let a0 = 0, a1 = 0, a2 = 0, a3 = 0
      let b0 = 0, b1 = 0, b2 = 0, b3 = 0
      for (let i = 0; i < inputs; i++) {
        const a = x[x0 + i]
        const b = x[x1 + i]
        const c0 = weight[w0 + i]
        const c1 = weight[w1 + i]
        const c2 = weight[w2 + i]
        const c3 = weight[w3 + i]
        a0 += a * c0
        a1 += a * c1
        a2 += a * c2
        a3 += a * c3
        b0 += b * c0
        b1 += b * c1
        b2 += b * c2
        b3 += b * c3
      }
      const at = row * outputs + column
      const next = at + outputs
      out[at] = a0 + bias[column]
      out[at + 1] = a1 + bias[column + 1]
      out[at + 2] = a2 + bias[column + 2]
      out[at + 3] = a3 + bias[column + 3]
      out[next] = b0 + bias[column]
      out[next + 1] = b1 + bias[column + 1]
      out[next + 2] = b2 + bias[column + 2]
      out[next + 3] = b3 + bias[column + 3]
    }
  }
  for (let row = 0; row < rows; row++) {
    for (let column = row < evenRows ? fours : 0; column < outputs; column++) {
      let sum = bias[column]
      for (let i = 0; i < inputs; i++) sum += x[row * inputs + i] * weight[column * inputs + i]
      out[row * outputs + column] = sum
    }
  }
}

function layerNorm(
  out: Float64Array, x: Float64Array, width: number, scale: Float64Array, shift: Float64Array, eps: number,
): void {
  for (let start = 0; start < x.length; start += width) {
    let mean = 0
    for (let i = 0; i < width; i++) mean += x[start + i]
    mean /= width
    let variance = 0
    for (let i = 0; i < width; i++) variance += (x[start + i] - mean) ** 2
    const inverse = 1 / Math.sqrt(variance / width + eps)
    for (let i = 0; i < width; i++) out[start + i] = (x[start + i] - mean) * inverse * scale[i] + shift[i]
  }
}

/** Writes softmax(q k^T / sqrt(d)) v of all heads side by side; returns the weights. */
function attend(out: Float64Array, qkv: Float64Array, tokens: number, width: number, heads: number): Float64Array {
  const d = width / heads
  const scale = 1 / Math.sqrt(d)
  const row = 3 * width
  const maps = new Float64Array(heads * tokens * tokens)
  const scores = new Float64Array(tokens)
  const sums = new Float64Array(d)
  for (let head = 0; head < heads; head++) {
    for (let query = 0; query < tokens; query++) {
      const q = query * row + head * d
      let highest = -Infinity
      for (let key = 0; key < tokens; key++) {
        const k = key * row + width + head * d
        let sum = 0
        for (let i = 0; i < d; i++) sum += qkv[q + i] * qkv[k + i]
        scores[key] = sum * scale
        if (scores[key] > highest) highest = scores[key]
      }
      let total = 0
      for (let key = 0; key < tokens; key++) total += scores[key] = Math.exp(scores[key] - highest)
      sums.fill(0)
      const start = (head * tokens + query) * tokens
      for (let key = 0; key < tokens; key++) {
        const weight = scores[key] / total
        maps[start + key] = weight
        const v = key * row + 2 * width + head * d
        for (let i = 0; i < d; i++) sums[i] += weight * qkv[v + i]
      }
      for (let i = 0; i < d; i++) out[query * width + head * d + i] = sums[i]
    }
  }
  return maps
}

function add(x: Float64Array, change: Float64Array): void {
  for (let i = 0; i < x.length; i++) x[i] += change[i]
}

function gelu(x: number): number {
  return 0.5 * x * erfc(-x * Math.SQRT1_2)
}

/** The complementary error function; relative error below 1.2e-7 (Press et al., Numerical Recipes, section 6.2). */
function erfc(x: number): number {
  const t = 1 / (1 + 0.5 * Math.abs(x))
  const value = t * Math.exp(-x * x - 1.26551223 + t * (1.00002368 + t * (0.37409196 + t * (0.09678418 +
    t * (-0.18628806 + t * (0.27886807 + t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277)))))))))
  return x >= 0 ? value : 2 - value
}

export function softmax(logits: Float64Array): number[] {
  const highest = Math.max(...logits)
  const exponents = Array.from(logits, (logit) => Math.exp(logit - highest))
  const total = exponents.reduce((sum, one) => sum + one, 0)
  return exponents.map((one) => one / total)
}
