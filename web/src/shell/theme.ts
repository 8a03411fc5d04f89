export type Theme = 'system' | 'light' | 'dark'
export const NEXT: Record<Theme, Theme> = { system: 'light', light: 'dark', dark: 'system' }
