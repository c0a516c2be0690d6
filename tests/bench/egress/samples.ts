import type { Figure } from "../figures.ts";

/** What a part of the bench measured, by the figures' names. */
export type Samples = Readonly<
  Record<
    string,
    { readonly unit: Figure["unit"]; readonly samples: readonly number[] }
  >
>;
