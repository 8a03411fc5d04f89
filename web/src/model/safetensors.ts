// Reads tensors from a safetensors file: 8 bytes length, a JSON header, the values. All become float64, in which the model computes.

export interface Tensor {
  shape: number[]
  values: Float64Array
}

export type Weights = Record<string, Tensor>

export function readSafetensors(bytes: ArrayBuffer): Weights {
  const { header, length } = headerOf(bytes)
  const weights: Weights = {}
  for (const [name, entry] of Object.entries<any>(header)) {
    if (name === '__metadata__') continue
    const [start, end] = entry.data_offsets
    // A copy, because the values need not start at a multiple of 4 bytes.
    weights[name] = { shape: entry.shape, values: asFloats(bytes.slice(8 + length + start, 8 + length + end), name, entry.dtype) }
  }
  return weights
}

/** The JSON that the lab puts beside arrays. */
export function readAbout<T>(bytes: ArrayBuffer): T {
  return JSON.parse(headerOf(bytes).header.__metadata__.about)
}

function headerOf(bytes: ArrayBuffer): { header: any; length: number } {
  const length = Number(new DataView(bytes).getBigUint64(0, true))
  return { header: JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 8, length))), length }
}

function asFloats(bytes: ArrayBuffer, name: string, dtype: string): Float64Array {
  if (dtype === 'F32') return new Float64Array(new Float32Array(bytes))
  if (dtype !== 'BF16') throw new Error(`${name} is ${dtype}; the page reads F32 and BF16`)
  // A bfloat16 is the upper half of a float32.
  return new Float64Array(new Float32Array(Uint32Array.from(new Uint16Array(bytes), (half) => half << 16).buffer))
}
