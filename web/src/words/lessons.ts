import { COMMON } from './common'

export const WORDS = {
  ...COMMON,
  title: 'Lessons',
  about: 'Each step opens a view of the lab, and says what to see there and what to try.',
  begin: 'Start',
  steps: (count: number) => `${count} steps`,
  stepOf: (step: number, count: number) => `Step ${step} of ${count}`,
  previous: 'Previous',
  next: 'Next',
  finish: 'All lessons',
  try: 'Try',
  again: 'Show this view again',
  back: 'Back to this step',
  close: 'End the lesson',
  fold: 'Hide the text',
  unfold: 'Show the text',
  bar: 'Lesson',
  keys: 'Keys: n or Page Down for the next step, p or Page Up for the previous one.',
  unknown: (name: string) => `There is no lesson ${name}.`,
  unknownStep: (step: number, title: string) => `There is no step ${step} in the lesson ${title}.`,
  own: 'Your own lesson',
  write: 'Write your own lesson',
  writeAbout: 'A lesson is a Markdown file of this form. Save files such as 01-my-lesson.md in a folder, and start the lab with it. The address of a view is what the browser shows while you look at it.',
  command: 'patchword lab --lessons FOLDER',
  example: `---
title: My first lesson
about: One line that says what the reader learns.
---

## Deeper costs more
view: #/cost?model=vit-exercise&depth=8

Every layer has the same number of parameters. Twice as many layers
cost *twice* as much, and \`depth\` says how many there are.

Try: move the slider Layers, and read the sum of the whole model.
`,
}
