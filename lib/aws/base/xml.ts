/** Far above what EC2's answers have, which is seven. */
const MAX_DEPTH = 24;
/** Far above what a page of 1,000 network interfaces has. */
const MAX_ELEMENTS = 500_000;
const MAX_NAME_LENGTH = 128;

/** An element; it has either text or children. Attributes are left out: AWS' answers mean nothing by them. */
export interface XmlElement {
  readonly name: string;
  /** Empty when there are children. */
  readonly text: string;
  readonly children: readonly XmlElement[];
}

interface Open extends XmlElement {
  text: string;
  readonly children: Open[];
}

const PROLOG = /^\uFEFF?(?:<\?xml [^<>?]*\?>)?\s*(?=<[A-Za-z_])/;
/** A tag with its name, its attributes and its slashes; or text. */
const TOKEN =
  /<(\/?)([A-Za-z_][\w.:-]*)((?:\s+[\w.:-]+=(?:"[^"<]*"|'[^'<]*'))*)\s*(\/?)>|([^<]+)/y;
const REFERENCE = /&(?:(lt|gt|amp|quot|apos)|#(\d{1,7})|#x([\dA-Fa-f]{1,6}));/g;
const NAMED: Readonly<Record<string, string>> = {
  lt: "<",
  gt: ">",
  amp: "&",
  quot: '"',
  apos: "'",
};
/** What XML 1.0 does not allow in a document. */
// deno-lint-ignore no-control-regex
const NO_CHARACTER = /[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]|\p{Surrogate}/u;

/**
 * Reads the XML that AWS answers with: elements and text. What else XML has
 * (comments, CDATA, instructions, a DTD, text beside elements) is refused, and
 * so is a document that is not complete.
 *
 * @throws {SyntaxError} with the place, without any of the text
 */
export function parseXml(text: string): XmlElement {
  const start = PROLOG.exec(text)?.[0].length;
  if (start === undefined) throw bad(0, "no element begins there");
  const stack: Open[] = [];
  let count = 0;
  for (let at = start; at < text.length;) {
    TOKEN.lastIndex = at;
    const token = TOKEN.exec(text);
    if (token === null) throw bad(at, "neither a whole tag nor text");
    const [all, closing, name, attributes, empty, between] = token;
    const parent = stack.at(-1);
    if (between !== undefined) {
      addText(parent, between, at);
    } else if (closing) {
      if (parent === undefined || parent.name !== name || attributes || empty) {
        throw bad(at, "another element ends than was begun");
      }
      stack.pop();
      if (stack.length === 0) return ended(parent, text, at + all.length);
    } else {
      const element: Open = { name: name ?? "", text: "", children: [] };
      checkLimits(element, { depth: stack.length, count: ++count, at });
      addChild(parent, element, at);
      if (!empty) stack.push(element);
      else if (parent === undefined) {
        return ended(element, text, at + all.length);
      }
    }
    at += all.length;
  }
  throw bad(text.length, "an element does not end");
}

/** The child of this name; the first one. */
export function childOf(
  element: XmlElement | undefined,
  name: string,
): XmlElement | undefined {
  return element?.children.find((child) => child.name === name);
}

/** The text of what is reached by these names; undefined when it is not there. */
export function textAt(
  element: XmlElement | undefined,
  ...path: readonly string[]
): string | undefined {
  return path.reduce(childOf, element)?.text;
}

/** The elements of a list: EC2 calls each of them `item`. */
export function itemsAt(
  element: XmlElement | undefined,
  ...path: readonly string[]
): readonly XmlElement[] {
  return path.reduce(childOf, element)?.children
    .filter(({ name }) => name === "item") ?? [];
}

function addText(parent: Open | undefined, text: string, at: number): void {
  if (NO_CHARACTER.test(text)) throw bad(at, "a character that XML has not");
  if (parent === undefined) throw bad(at, "text outside of the element");
  if (parent.children.length === 0) parent.text = decode(text, at);
  else if (text.trim() !== "") throw bad(at, "text beside elements");
}

function addChild(parent: Open | undefined, child: Open, at: number): void {
  if (parent === undefined) return;
  if (parent.text.trim() !== "") throw bad(at, "an element beside text");
  parent.text = "";
  parent.children.push(child);
}

function checkLimits(
  { name }: XmlElement,
  { depth, count, at }: {
    readonly depth: number;
    readonly count: number;
    readonly at: number;
  },
): void {
  if (depth >= MAX_DEPTH) throw bad(at, `more than ${MAX_DEPTH} levels`);
  if (count > MAX_ELEMENTS) throw bad(at, `more than ${MAX_ELEMENTS} elements`);
  if (name.length > MAX_NAME_LENGTH) throw bad(at, "a name is too long");
}

function decode(text: string, at: number): string {
  if (!text.includes("&")) return text;
  if (text.replaceAll(REFERENCE, "").includes("&")) {
    throw bad(at, "an entity that is not one of XML's five");
  }
  return text.replaceAll(REFERENCE, (_, named, decimal, hex) => {
    if (named !== undefined) return NAMED[named] ?? "";
    const code = decimal ? Number(decimal) : Number.parseInt(hex, 16);
    const character = code > 0x10ffff ? "\0" : String.fromCodePoint(code);
    if (!NO_CHARACTER.test(character)) return character;
    throw bad(at, "a reference to a character that XML has not");
  });
}

/** The element, when nothing but space comes after it. */
function ended(element: XmlElement, text: string, at: number): XmlElement {
  if (text.slice(at).trim() !== "") throw bad(at, "text after the element");
  return element;
}

function bad(at: number, why: string): SyntaxError {
  return new SyntaxError(`Cannot read XML at character ${at}: ${why}`);
}
