import { Ec2Error, invalidCombination } from "./errors.ts";
import type { Form } from "./form.ts";

const MIN_PAGE = 5;
const MAX_PAGE = 1_000;
const TOKEN = /^after:(.+)$/;

/** A part of an answer. */
export interface Page<T> {
  readonly items: readonly T[];
  readonly nextToken: string | undefined;
}

/**
 * The items that a request asks for, by their IDs. The next page begins after
 * the last ID of this one: items that come and go between two calls may be missed.
 *
 * @throws {Ec2Error} when the parameters do not fit, or the token is not ours
 */
export function pageOf<T extends { readonly id: string }>(
  items: readonly T[],
  options: {
    readonly form: Form;
    readonly named: boolean;
    /** EC2 may give fewer than are asked for; 0: as many. */
    readonly most: number;
  },
): Page<T> {
  const { form, named, most } = options;
  const size = form.integer("MaxResults", { min: MIN_PAGE, max: MAX_PAGE });
  const token = form.text("NextToken");
  if (named && (size !== undefined || token !== undefined)) {
    throw invalidCombination(
      "IDs cannot be used with the parameters MaxResults and NextToken",
    );
  }
  const after = token === undefined ? "" : readToken(token);
  const rest = items.filter(({ id }) => id > after)
    .sort((a, b) => a.id < b.id ? -1 : 1);
  const page = rest.slice(0, Math.min(size ?? MAX_PAGE, most || Infinity));
  const last = page.at(-1);
  const isAll = page.length === rest.length || last === undefined;
  return {
    items: page,
    nextToken: isAll ? undefined : btoa(`after:${last.id}`),
  };
}

function readToken(token: string): string {
  const text = /^[\w+/=]+$/.test(token) ? tryDecode(token) : "";
  const [, after] = TOKEN.exec(text) ?? [];
  if (after !== undefined) return after;
  throw new Ec2Error(
    "InvalidPaginationToken",
    "The specified pagination token is not valid.",
  );
}

function tryDecode(token: string): string {
  try {
    return atob(token);
  } catch {
    return ""; // InvalidCharacterError
  }
}
