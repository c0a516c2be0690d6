/** Makes an input of another one: bytes for binary formats, the tree for JSON, characters and words for text. */
import type { Random } from "../faults/random.ts";

/** Longest input that is tried. */
export const MAX_BYTES = 16_384;

const NUMBERS = [0, 1, 2, 3, 4, 7, 8, 15, 16, 0x7f, 0x80, 0xff, 0x100];
const WIDE = [0, 1, 4, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];

/** Changes bytes: flips, odd numbers in either order, cut, doubled, removed, of another input. */
export function mutateBytes(
  random: Random,
  input: Uint8Array,
  other: Uint8Array,
): Uint8Array {
  let bytes: Uint8Array = input.slice();
  for (let n = 1 + random.below(4); n > 0; n--) {
    const at = random.below(bytes.length + 1);
    const end = Math.min(bytes.length, at + 1 + random.below(32));
    switch (random.below(7)) {
      case 0:
        if (at < bytes.length) {
          bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8));
        }
        break;
      case 1:
        if (at < bytes.length) bytes[at] = random.pick(NUMBERS);
        break;
      case 2:
        putNumber(random, bytes, at & ~1);
        break;
      case 3:
        bytes = bytes.slice(0, at);
        break;
      case 4:
        bytes = join(bytes.subarray(0, end), bytes.subarray(at));
        break;
      case 5:
        bytes = join(bytes.subarray(0, at), bytes.subarray(end));
        break;
      default:
        bytes = join(
          bytes.subarray(0, at),
          other.subarray(random.below(other.length + 1)),
        );
    }
  }
  return bytes.subarray(0, MAX_BYTES);
}

function putNumber(random: Random, bytes: Uint8Array, at: number): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isLittle = random.chance(0.5);
  if (at + 4 <= bytes.length && random.chance(0.5)) {
    view.setUint32(at, random.pick(WIDE), isLittle);
  } else if (at + 2 <= bytes.length) {
    view.setUint16(at, random.pick(NUMBERS), isLittle);
  }
}

function join(first: Uint8Array, second: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(first.length + second.length);
  bytes.set(first);
  bytes.set(second, first.length);
  return bytes;
}

const WORDS = [
  ...["", "0", "-1", "/", ":", "..", "\0", "%d", "\n", " ", ",", ";", "="],
  ...["null", "{}", "[]", "true", "1e999", "__proto__", "constructor"],
  ...["::", "::ffff:1.2.3.4", "10.0.0.0/33", "fe80::1%eth0", "01.2.3.4"],
  ...["é", "\u202e", "\ud800", "𝟙", "a".repeat(300), "9".repeat(400)],
];

/** Changes a text: words put in, parts doubled, removed, of another input. */
export function mutateText(
  random: Random,
  input: string,
  other: string,
): string {
  let text = input;
  for (let n = 1 + random.below(3); n > 0; n--) {
    const at = random.below(text.length + 1);
    const end = Math.min(text.length, at + 1 + random.below(16));
    const [head, tail] = [text.slice(0, at), text.slice(end)];
    switch (random.below(5)) {
      case 0:
        text = head + random.pick(WORDS) + text.slice(at);
        break;
      case 1:
        text = head + random.pick(WORDS) + tail;
        break;
      case 2:
        text = head + tail;
        break;
      case 3:
        text = text.slice(0, end) + text.slice(at);
        break;
      default:
        text = head + other.slice(random.below(other.length + 1));
    }
  }
  return text.slice(0, MAX_BYTES);
}

const VALUES: readonly (() => unknown)[] = [
  ...WORDS.map((word) => () => word),
  ...[null, true, false, 0, -1, 1.5, 2 ** 31, 2 ** 53, 1e300]
    .map((value) => () => value),
  () => [],
  () => ({}),
  () => Array.from({ length: 300 }, (_, i) => i),
  () => JSON.parse('{"__proto__":{"a":1},"constructor":1}') as unknown,
];

/** Changes a JSON text somewhere in its tree; one that is no JSON as text. */
export function mutateJson(
  random: Random,
  input: string,
  other: string,
): string {
  if (random.chance(0.15)) return mutateText(random, input, other);
  let tree: unknown;
  try {
    tree = JSON.parse(input);
  } catch {
    return mutateText(random, input, other);
  }
  for (let n = 1 + random.below(3); n > 0; n--) tree = changeTree(random, tree);
  return (JSON.stringify(tree) ?? "null").slice(0, MAX_BYTES);
}

function changeTree(random: Random, tree: unknown): unknown {
  if (typeof tree !== "object" || tree === null || random.chance(0.1)) {
    return typeof tree === "string" && random.chance(0.5)
      ? mutateText(random, tree, "")
      : random.pick(VALUES)();
  }
  const entries = Object.entries(tree);
  const [key, value] = random.tryPick(entries) ??
    [random.pick(WORDS), undefined];
  const changed = random.chance(0.15)
    ? entries.filter(([name]) => name !== key)
    : [
      ...entries.filter(([name]) => name !== key),
      [
        random.chance(0.05) ? random.pick(WORDS) : key,
        changeTree(random, value),
      ],
    ] as [string, unknown][];
  return Array.isArray(tree)
    ? changed.map(([, item]) => item)
    : Object.fromEntries(changed);
}
