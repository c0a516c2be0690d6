import type {
  NftChain,
  NftSet,
  NftStatement,
  NftTable,
} from "../model/model.ts";

/** What nft takes for a name without quotes. */
const NAME = /^[A-Za-z][\w/.-]*$/;
/** NFT_NAME_MAXLEN of `<linux/netfilter/nf_tables.h>`, with the NUL. */
const MAX_NAME_BYTES = 256;
/** NFTNL_UDATA_COMMENT_MAXLEN of libnftnl, with the NUL. */
const MAX_COMMENT_BYTES = 128;
/** What would break out of the quotes that `nft list` puts a comment in. */
// deno-lint-ignore no-control-regex -- that is what is looked for
const UNPRINTABLE = /["\u0000-\u001f\u007f]/;

/**
 * Looks for what the kernel would refuse without saying why, or what `nft`
 * could not read.
 *
 * @throws {TypeError} when a name or comment is unusable or given twice, when two chains are in one place, when a map has two values for one key, or when a rule names what the table does not have
 */
export function checkTable(table: NftTable): void {
  const { name, counters, sets, chains } = table;
  checkNames("table", [name]);
  checkNames("counter", counters);
  checkNames("set", sets.map((set) => set.name));
  checkNames("chain", chains.map((chain) => chain.name));
  checkOrder(chains);
  sets.forEach(checkValues);
  const namesOf = (some: readonly NftSet[]) =>
    new Set(some.map((set) => set.name));
  const known = {
    counters: new Set(counters),
    sets: namesOf(sets.filter(({ value }) => value === undefined)),
    maps: namesOf(sets.filter(({ value }) => value !== undefined)),
  };
  for (const chain of chains) {
    for (const rule of chain.rules) {
      checkComment(rule.comment ?? "");
      for (const statement of rule.statements) {
        checkReference(statement, { ...known, chain: chain.name });
      }
    }
  }
}

/** Whether the name can be one of a table, set, chain or counter. @throws {TypeError} when not */
function checkNames(what: string, names: readonly string[]): void {
  for (const name of names) {
    if (!NAME.test(name) || name.length >= MAX_NAME_BYTES) {
      throw new TypeError(
        `Cannot name a ${what} ${
          JSON.stringify(name)
        }: nft takes a letter, then letters, digits and "_", "-", "." or "/"`,
      );
    }
  }
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) {
    throw new TypeError(`Cannot have two ${what}s "${twice}" in one table`);
  }
}

/** Chains of one hook and priority are run in the order in which they were made, which a plan does not have. */
function checkOrder(chains: readonly NftChain[]): void {
  const places = new Map<string, string>();
  for (const { name, hook, priority } of chains) {
    const place = `${hook} with priority ${priority}`;
    const other = places.get(place);
    if (other !== undefined) {
      throw new TypeError(
        `Cannot have chains "${other}" and "${name}" both in ${place}`,
      );
    }
    places.set(place, name);
  }
}

/** The kernel takes no second value for a key. */
function checkValues({ name, value, elements }: NftSet): void {
  if (value === undefined) return;
  const values = new Map<string, string>();
  for (const element of elements) {
    const key = element.slice(0, -1).join(" . ");
    const own = String(element.at(-1));
    if ((values.get(key) ?? own) !== own) {
      throw new TypeError(`Cannot give "${key}" two values in map "${name}"`);
    }
    values.set(key, own);
  }
}

function checkComment(comment: string): void {
  const bytes = new TextEncoder().encode(comment).byteLength;
  if (bytes >= MAX_COMMENT_BYTES || UNPRINTABLE.test(comment)) {
    throw new TypeError(
      `Cannot comment a rule with ${JSON.stringify(comment)}: nft takes up to ${
        MAX_COMMENT_BYTES - 1
      } bytes without quotes and control characters`,
    );
  }
}

function checkReference(
  statement: NftStatement,
  known: {
    readonly counters: ReadonlySet<string>;
    readonly sets: ReadonlySet<string>;
    readonly maps: ReadonlySet<string>;
    readonly chain: string;
  },
): void {
  const missing = statement.kind === "counter" &&
      !known.counters.has(statement.name)
    ? `counter "${statement.name}"`
    : (statement.kind === "lookup" || statement.kind === "addToSet") &&
        !known.sets.has(statement.set)
    ? `set "${statement.set}"`
    : statement.kind === "setByMap" && !known.maps.has(statement.map)
    ? `map "${statement.map}"`
    : undefined;
  if (missing !== undefined) {
    throw new TypeError(
      `Cannot use ${missing} in chain "${known.chain}": the table has no such`,
    );
  }
}
