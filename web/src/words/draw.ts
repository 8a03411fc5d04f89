import { COMMON } from './common'

export const WORDS = {
  ...COMMON,

  drawing: 'Drawing',
  drawHint: 'Draw a garment with mouse, finger or keyboard: arrow keys move, space paints, Shift with arrow keys paints a line.',
  example: 'An example: your first stroke replaces it.',
  clear: 'Clear',
  undo: 'Undo',
  brush: 'Brush radius',
  eraser: 'Eraser',
  prediction: 'Prediction',
  empty: 'Nothing is drawn yet.',
  attention: 'Attention of the heads',
  layer: 'Layer',
  query: 'Query',
  queryHint: 'Each map shows how much the query attends to each patch. Point at a patch, or move the slider, to choose the query.',
  attentionTable: 'Attention as a table',
  drawNoModel: 'No listed model can run in the page: it must be a ViT of square gray-scale images.',
}
