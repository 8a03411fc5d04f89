// The calculation as Markdown or LaTeX, to be handed in.
import type { Cost, Group, Line } from './cost'

const thousands = (value: number) => value.toLocaleString('en-US')
const times = (formula: string) => formula.replace(/ x /g, ' × ')

export function titleOf(group: Group): string {
  if (!group.isBlock) return group.title
  return group.times === 1 ? 'one layer' : `one layer (of ${group.times})`
}

export function toMarkdown(cost: Cost): string {
  const working = (count: Line['macs']) => (count ? `${times(count.formula)} = ${times(count.numbers)} = ${thousands(count.value)}` : '')
  const sizes = cost.sizes.map((size) => `- ${size.symbol} = ${size.formula ? `${times(size.formula)} = ` : ''}${thousands(size.value)} (${size.meaning})`)
  const tables = cost.groups.flatMap((group) => [
    '', `### ${titleOf(group)}`, '',
    '| part | MACs | parameters |', '|---|---|---|',
    ...group.lines.map((line) => `| ${line.label} | ${working(line.macs)} | ${working(line.parameters)} |`),
    `| **sum** | **${thousands(group.macs)}** | **${thousands(group.parameters)}** |`,
  ])
  const sum = (what: 'macs' | 'parameters') =>
    cost.groups.map((group) => (group.times > 1 ? `${group.times} × ${thousands(group[what])}` : thousands(group[what]))).join(' + ')
  return [
    `## Cost of ${cost.model}`, '', 'Sizes:', '', ...sizes, ...tables, '', '### whole model', '',
    `MACs: ${sum('macs')} = **${thousands(cost.macs)}**`, '',
    `Parameters: ${sum('parameters')} = **${thousands(cost.parameters)}**`, '',
  ].join('\n')
}

export function toLatex(cost: Cost): string {
  const number = (value: number) => thousands(value).replace(/,/g, '{,}')
  const formula = (text: string) => text.replace(/ x /g, ' \\cdot ').replace(/ceil\(/g, '\\operatorname{ceil}(')
  const text = (words: string) => words.replace(/([%&_#])/g, '\\$1').replace(/\[/g, '{[}').replace(/\]/g, '{]}')
  const align = (lines: string[]) => ['\\begin{align*}', lines.join(' \\\\\n'), '\\end{align*}']
  const sizes = cost.sizes.map((size) => `${size.symbol} &= ${size.formula ? `${formula(size.formula)} = ` : ''}${number(size.value)} && \\text{${text(size.meaning)}}`)
  const working = (group: Group, what: 'macs' | 'parameters') => [
    ...group.lines.filter((line) => line[what]).map((line) => {
      const count = line[what]!
      return `\\text{${text(line.label)}:}\\quad & ${formula(count.formula)} = ${formula(count.numbers)} = ${number(count.value)}`
    }),
    `\\text{sum:}\\quad & ${number(group[what])}`,
  ]
  const chapters = cost.groups.flatMap((group) => [
    `\\subsection*{${text(titleOf(group))}}`,
    ...(group.macs ? ['MACs:', ...align(working(group, 'macs'))] : []),
    ...(group.parameters ? ['Parameters:', ...align(working(group, 'parameters'))] : []),
  ])
  const sum = (what: 'macs' | 'parameters') =>
    cost.groups.map((group) => (group.times > 1 ? `${group.times} \\cdot ${number(group[what])}` : number(group[what]))).join(' + ')
  return [
    '% needs \\usepackage{amsmath}', `\\section*{Cost of ${text(cost.model)}}`, ...align(sizes), ...chapters,
    '\\subsection*{whole model}',
    ...align([
      `\\text{MACs:}\\quad & ${sum('macs')} = ${number(cost.macs)}`,
      `\\text{parameters:}\\quad & ${sum('parameters')} = ${number(cost.parameters)}`,
    ]), '',
  ].join('\n')
}
