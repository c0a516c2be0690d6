/** How far an address or route reaches, `enum rt_scope_t` of `<linux/rtnetlink.h>`. */
export type Scope = "global" | "site" | "link" | "host" | "nowhere";

const SCOPES: ReadonlyMap<number, Scope> = new Map([
  [0, "global"],
  [200, "site"],
  [253, "link"],
  [254, "host"],
  [255, "nowhere"],
]);

const NUMBERS: ReadonlyMap<Scope, number> = new Map(
  Array.from(SCOPES, ([number, scope]) => [scope, number]),
);

export function scopeNumber(scope: Scope | number): number {
  return typeof scope === "number" ? scope : NUMBERS.get(scope) ?? 0;
}

/** The name of a scope; the number itself when it has none. */
export function scopeOf(number: number): Scope | number {
  return SCOPES.get(number) ?? number;
}
