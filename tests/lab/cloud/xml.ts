/** What an element holds: text, elements by name, or a list of `item`s. Absent elements are left out. */
export type Xml =
  | string
  | number
  | boolean
  | undefined
  | readonly Xml[]
  | XmlFields;

/** Elements by name, in their order. */
export interface XmlFields {
  readonly [name: string]: Xml;
}

const HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n';
const NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/";

/** The answer to an action. */
export function answerXml(
  action: string,
  answer: { readonly requestId: string; readonly fields: XmlFields },
): string {
  const { requestId, fields } = answer;
  const name = `${action}Response`;
  const content = write({ requestId, ...fields });
  return `${HEAD}<${name} xmlns="${NAMESPACE}">${content}</${name}>`;
}

/** The answer to an action that failed. */
export function errorXml(
  error: { readonly code: string; readonly message: string },
  requestId: string,
): string {
  const { code, message } = error;
  const Errors = { Error: { Code: code, Message: message } };
  return HEAD + write({ Response: { Errors, RequestID: requestId } });
}

function write(value: Xml): string {
  if (value === undefined) return "";
  if (Array.isArray(value)) {
    return value.map((item) => element("item", item)).join("");
  }
  if (typeof value === "object") {
    return Object.entries(value).map(([name, field]) => element(name, field))
      .join("");
  }
  return escape(String(value));
}

function element(name: string, value: Xml): string {
  return value === undefined ? "" : `<${name}>${write(value)}</${name}>`;
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&apos;",
};

function escape(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? "");
}
