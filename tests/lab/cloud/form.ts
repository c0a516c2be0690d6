import { Ec2Error, invalidValue, missingParameter } from "./errors.ts";

/** Parameters of a request, each read once; what is left over at the end was not known. */
export class Form {
  readonly #values: ReadonlyMap<string, string>;
  readonly #unread: Set<string>;
  readonly #prefix: string;

  private constructor(
    values: ReadonlyMap<string, string>,
    options: { unread: Set<string>; prefix: string },
  ) {
    this.#values = values;
    this.#unread = options.unread;
    this.#prefix = options.prefix;
  }

  /** @throws {Ec2Error} when a parameter is there twice */
  static parse(body: string): Form {
    const values = new Map<string, string>();
    for (const [name, value] of new URLSearchParams(body)) {
      if (values.has(name)) {
        throw new Ec2Error(
          "MalformedQueryString",
          `The parameter ${name} is there more than once`,
        );
      }
      values.set(name, value);
    }
    return new Form(values, { unread: new Set(values.keys()), prefix: "" });
  }

  /** All parameters as they came. */
  toRecord(): Record<string, string> {
    return Object.fromEntries(this.#values);
  }

  text(name: string): string | undefined {
    this.#unread.delete(this.#prefix + name);
    return this.#values.get(this.#prefix + name);
  }

  required(name: string): string {
    const value = this.text(name);
    if (value !== undefined && value !== "") return value;
    throw missingParameter(this.#prefix + name);
  }

  integer(
    name: string,
    limits: { readonly min: number; readonly max: number },
  ): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= limits.min && value <= limits.max) {
      return value;
    }
    throw invalidValue(
      `Value ( ${text} ) for parameter ${this.#prefix}${name} is invalid. Expecting a number from ${limits.min} to ${limits.max}.`,
    );
  }

  flag(name: string): boolean | undefined {
    const text = this.text(name);
    if (text === undefined || text === "true") return text && true;
    if (text === "false") return false;
    throw invalidValue(
      `Value ( ${text} ) for parameter ${this.#prefix}${name} is invalid. Expecting true or false.`,
    );
  }

  /** `NAME.1`, `NAME.2` and so on. */
  list(name: string): string[] {
    const values: string[] = [];
    for (;;) {
      const value = this.text(`${name}.${values.length + 1}`);
      if (value === undefined) return values;
      values.push(value);
    }
  }

  /** `NAME.1.X`, `NAME.2.X` and so on, as forms of their own. */
  forms(name: string): Form[] {
    const forms: Form[] = [];
    for (;;) {
      const prefix = `${this.#prefix}${name}.${forms.length + 1}.`;
      if (![...this.#values.keys()].some((key) => key.startsWith(prefix))) {
        return forms;
      }
      forms.push(new Form(this.#values, { unread: this.#unread, prefix }));
    }
  }

  /** @throws {Ec2Error} when there is a parameter that was not read */
  end(): void {
    const [name] = this.#unread;
    if (name === undefined) return;
    throw new Ec2Error(
      "UnknownParameter",
      `The parameter ${name} is not recognized`,
    );
  }
}
