// The words of all pages; those of one page are in a file of its name.
export const COMMON = {
  brand: 'patchword lab',
  skip: 'Skip to the content',
  theme: { system: 'Theme: system', light: 'Theme: light', dark: 'Theme: dark' },
  projector: 'Projector',
  loading: 'Loading …',
  unknownPage: 'There is no such page.',
  save: 'Save',
  model: 'Model',
}
