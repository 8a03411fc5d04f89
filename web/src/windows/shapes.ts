// Paths over a map of cells, in units of a cell.

/** The cells for which `is` holds, as rectangles along the rows. */
export function cells(rows: number, columns: number, is: (place: number) => boolean): string {
  let path = ''
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      if (!is(row * columns + column)) continue
      const start = column
      while (column + 1 < columns && is(row * columns + column + 1)) column++
      const width = column + 1 - start
      path += `M${start} ${row}h${width}v1h${-width}z`
    }
  }
  return path
}

/** The lines between cells of different labels; the outside of the map has the label -1. */
export function borders(rows: number, columns: number, label: (place: number) => number): string {
  const at = (row: number, column: number) =>
    row < 0 || column < 0 || row >= rows || column >= columns ? -1 : label(row * columns + column)
  let path = ''
  for (let row = 0; row <= rows; row++) {
    for (let column = 0; column < columns; column++) {
      if (at(row, column) === at(row - 1, column)) continue
      const start = column
      while (column + 1 < columns && at(row, column + 1) !== at(row - 1, column + 1)) column++
      path += `M${start} ${row}h${column + 1 - start}`
    }
  }
  for (let column = 0; column <= columns; column++) {
    for (let row = 0; row < rows; row++) {
      if (at(row, column) === at(row, column - 1)) continue
      const start = row
      while (row + 1 < rows && at(row + 1, column) !== at(row + 1, column - 1)) row++
      path += `M${column} ${start}v${row + 1 - start}`
    }
  }
  return path
}

/** The lines between all cells. */
export function mesh(rows: number, columns: number): string {
  let path = ''
  for (let row = 1; row < rows; row++) path += `M0 ${row}h${columns}`
  for (let column = 1; column < columns; column++) path += `M${column} 0v${rows}`
  return path
}
