/** How something in a grid is shown: one character, in one colour. */
export interface Cell {
  readonly sign: string;
  readonly colour: Colour;
}

/** Meaning of a colour: good, nearly full, bad, or empty. */
export type Colour = "good" | "tight" | "bad" | "none";

/** Select Graphic Rendition of ECMA-48, section 8.3.117. */
const SGR: Readonly<Record<Colour, string>> = {
  good: "32",
  tight: "33",
  bad: "1;31",
  none: "2",
};

/** Paints a text, if there are colours. */
export function paint(
  text: string,
  { colour, colours }: {
    readonly colour: Colour;
    readonly colours: boolean;
  },
): string {
  return colours ? `\u001b[${SGR[colour]}m${text}\u001b[0m` : text;
}

/** Cells in one line. */
const WIDTH = 32;

/** The cell of a free place. */
const FREE: Cell = { sign: "·", colour: "none" };

export interface GridOptions {
  /** How many places there are. */
  readonly size: bigint;
  /** What begins the line of which this is the first place. */
  readonly label: (place: bigint) => string;
  /** What places without anything are, e.g. "blocks free". */
  readonly what: string;
  readonly colours: boolean;
}

/**
 * Draws places as lines of characters, however many there are: lines without
 * anything in them become one that counts their places.
 */
export function formatGrid(
  cells: ReadonlyMap<bigint, Cell>,
  options: GridOptions,
): string {
  const { size, what } = options;
  const width = BigInt(WIDTH);
  const lines = (size + width - 1n) / width;
  const used = [...new Set([...cells.keys()].map((place) => place / width))]
    .filter((line) => line < lines)
    .sort((a, b) => a < b ? -1 : Number(a > b));
  const shown: string[][] = [];
  let next = 0n;
  const skipTo = (line: bigint): void => {
    const end = line * width < size ? line * width : size;
    const places = end - next * width;
    if (places > 0n) {
      const all = places === size ? "all " : "";
      shown.push([options.label(next * width), `${all}${places} ${what}`]);
    }
  };
  for (const line of used) {
    skipTo(line);
    shown.push([
      options.label(line * width),
      lineOf(cells, line * width, options),
    ]);
    next = line + 1n;
  }
  skipTo(lines);
  const column = Math.max(...shown.map(([label = ""]) => label.length));
  return shown.map(([label = "", text]) =>
    `  ${label.padEnd(column)}  ${text}\n`
  ).join("");
}

function lineOf(
  cells: ReadonlyMap<bigint, Cell>,
  first: bigint,
  { size, colours }: GridOptions,
): string {
  const places = Array.from({ length: WIDTH }, (_, i) => first + BigInt(i))
    .filter((place) => place < size);
  const runs: { colour: Colour; text: string }[] = [];
  for (const place of places) {
    const { sign, colour } = cells.get(place) ?? FREE;
    const run = runs.at(-1);
    if (run?.colour === colour) run.text += sign;
    else runs.push({ colour, text: sign });
  }
  return runs.map(({ colour, text }) => paint(text, { colour, colours })).join(
    "",
  );
}
