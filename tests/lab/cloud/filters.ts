import { invalidValue } from "./errors.ts";
import type { Form } from "./form.ts";

/** The items that match all of a request's filters, each by one of its values. */
export function matching<T>(
  items: readonly T[],
  options: {
    readonly form: Form;
    /** What a filter of that name compares; undefined when EC2 has no filter of that name. */
    values(name: string): ((item: T) => readonly string[]) | undefined;
  },
): readonly T[] {
  const { form, values } = options;
  return form.forms("Filter").reduce((left, filter) => {
    const name = filter.required("Name");
    const wanted = filter.list("Value").map(toPattern);
    const read = values(name);
    if (read === undefined) {
      throw invalidValue(`The filter '${name}' is invalid`);
    }
    return left.filter((item) =>
      read(item).some((value) => wanted.some((it) => it.test(value)))
    );
  }, items);
}

/** "*" stands for any characters, "?" for one; a backslash before either for itself. */
function toPattern(text: string): RegExp {
  const parts = text.match(/\\?[^]/g) ?? [];
  const source = parts.map((part) => {
    if (part === "*") return "[^]*";
    if (part === "?") return "[^]";
    return RegExp.escape(part.replace(/^\\(?=[^])/, ""));
  });
  return new RegExp(`^${source.join("")}$`);
}
