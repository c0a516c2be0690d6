/** A number with a suffix, Kubernetes' resource.Quantity of apimachinery; numbers with an exponent have no suffix. */
const QUANTITY =
  /^([+-]?(?:\d+\.?\d*|\.\d+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d+))?$/;

const SUFFIXES: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** Reads a quantity such as `200Mi` or `100m`; undefined when it is not one. */
export function parseQuantity(text: string): number | undefined {
  const [, digits, suffix, exponent] = QUANTITY.exec(text) ?? [];
  if (digits === undefined) return undefined;
  const scale = suffix === undefined
    ? 10 ** Number(exponent ?? 0)
    : SUFFIXES[suffix] ?? NaN;
  return Number(digits) * scale;
}

/** Whether a quantity is at least the other one; false for what is not a quantity, such as a limit that the API server will refuse. */
export function isAtLeast(quantity: string, other: string): boolean {
  const [a, b] = [parseQuantity(quantity), parseQuantity(other)];
  return a !== undefined && b !== undefined && a >= b;
}
