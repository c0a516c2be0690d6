// What the API server itself counts: its metrics, before and after.
import type { ControlPlane } from "../../lab/mod.ts";

/** Labels that a sample must have, each with a pattern of its whole value. */
export type Labels = Readonly<Record<string, RegExp>>;

/** Writes of objects of Coil's, and among them those that were refused. */
const WRITES: Labels = {
  resource: /^(addressblocks|addresspools|blockrequests)$/,
  verb: /^(APPLY|DELETE|PATCH|POST|PUT)$/,
};
const REFUSED: Labels = { ...WRITES, code: /^[45]/ };

/** The metrics of the API server at a moment. */
export class ServerCounts {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  static async read(
    plane: Pick<ControlPlane, "kubectl">,
  ): Promise<ServerCounts> {
    return new ServerCounts(await plane.kubectl("get", "--raw", "/metrics"));
  }

  /** Writes of objects of Coil's, and how many of them were refused. */
  get writes(): { readonly all: number; readonly refused: number } {
    const count = (labels: Labels) =>
      this.sum("apiserver_request_total", labels);
    return { all: count(WRITES), refused: count(REFUSED) };
  }

  /** The sum of a metric's samples that have these labels. */
  sum(name: string, labels: Labels = {}): number {
    let sum = 0;
    for (const line of this.#text.split("\n")) {
      if (!line.startsWith(`${name}{`)) continue;
      const end = line.lastIndexOf("} ");
      const found = new Map(
        line.slice(0, end).matchAll(/([a-z_]+)="([^"]*)"/g)
          .map(([, label = "", value = ""]) => [label, value]),
      );
      const isMeant = Object.entries(labels).every(([label, pattern]) =>
        pattern.test(found.get(label) ?? "")
      );
      if (isMeant) sum += Number(line.slice(end + 2));
    }
    return sum;
  }
}
