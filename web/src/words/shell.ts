import { COMMON } from './common'

export const SHELL = {
  ...COMMON,
  pages: 'Pages',
  overview: 'Overview',
  projectorTitle: 'Projector: larger type',
  keys: 'Keys',
  keysOn: 'Use these keys',
  close: 'Close',
  anyPage: 'On every page',
  inLesson: 'In a lesson',
  actions: { help: 'Show this list', theme: 'Change the theme', projector: 'Projector mode on and off', tab: 'Move to the next control', arrows: 'Move a slider', next: 'Next step', previous: 'Previous step', leave: 'Close a menu or this list' },
}
