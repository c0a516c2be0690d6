import assert from "node:assert/strict";
import fc from "fast-check";
import { childOf, itemsAt, parseXml, textAt, type XmlElement } from "./xml.ts";

const ESCAPES: Readonly<Record<string, string>> = {
  "<": "&lt;",
  ">": "&gt;",
  "&": "&amp;",
  '"': "&quot;",
  "'": "&apos;",
};
const escaped = (text: string) =>
  text.replaceAll(/[<>&"']/g, (c) => ESCAPES[c] ?? c);

/** Written with the space between elements that an indenting printer makes. */
function print({ name, text, children }: XmlElement, space: string): string {
  const inner = children.map((child) => print(child, space) + space);
  if (children.length === 0 && text === "") return `<${name}/>`;
  const content = children.length > 0 ? space + inner.join("") : escaped(text);
  return `<${name}>${content}</${name}>`;
}

const nameOf = fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_.-]{0,8}$/);
/** What a tag's value may have: any character of XML. */
const textOf = fc.string({ unit: "grapheme", maxLength: 20 }).filter((text) =>
  !/\p{Cc}|[\ufffe\uffff]/u.test(text)
);
const { tree } = fc.letrec<{ tree: XmlElement }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 4 },
    fc.record(
      { name: nameOf, text: textOf, children: fc.constant([]) },
      { noNullPrototype: true },
    ),
    fc.record({
      name: nameOf,
      text: fc.constant(""),
      children: fc.array(tie("tree"), { maxLength: 5 }),
    }, { noNullPrototype: true }),
  ),
}));
const space = fc.constantFrom("", "\n", "\r\n    ", "\t");

Deno.test("parseXml() gives back any tree that was written", () => {
  fc.assert(fc.property(tree, space, (element, between) => {
    const text = `<?xml version="1.0" encoding="UTF-8"?>\n` +
      print(element, between) + between;
    assert.deepEqual(parseXml(text), element);
  }));
});

Deno.test("parseXml() refuses what was cut anywhere", () => {
  fc.assert(fc.property(tree, space, fc.nat(), (element, between, at) => {
    const text = print(element, between);
    assert.throws(() => parseXml(text.slice(0, at % text.length)), SyntaxError);
  }));
});

Deno.test("parseXml() reads or refuses any text, and throws nothing else", () => {
  const bits = fc.constantFrom("<", ">", "/", "a", "&", "&lt;", " ", "='", "!");
  const soup = fc.oneof(
    fc.string(),
    fc.array(bits, { maxLength: 40 }).map((list) => list.join("")),
  );
  fc.assert(fc.property(soup, (text) => {
    try {
      parseXml(text);
    } catch (error) {
      assert.ok(error instanceof SyntaxError);
    }
  }));
});

Deno.test("parseXml() refuses what AWS does not send", () => {
  const refused: Readonly<Record<string, string>> = {
    nothing: "",
    "a text": "Service Unavailable",
    "HTML's doctype": "<!DOCTYPE html><html></html>",
    "a DTD": '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
    "an entity of its own": "<a>&nbsp;</a>",
    "a bare ampersand": "<a>b & c</a>",
    "an entity without an end": "<a>&lt</a>",
    "a reference to NUL": "<a>&#0;</a>",
    "a reference to half a pair": "<a>&#xD800;</a>",
    "a reference beyond Unicode": "<a>&#x110000;</a>",
    "a control character": "<a>\x07</a>",
    "a comment": "<a><!-- b --></a>",
    CDATA: "<a><![CDATA[b]]></a>",
    "an instruction": "<a><?b c?></a>",
    "two elements": "<a/><b/>",
    "two elements with text": "<a></a><b></b>",
    "text before": "b<a/>",
    "text after": "<a/>b",
    "text before an element": "<a>b<c/></a>",
    "text after an element": "<a><c/>b</a>",
    "elements that cross": "<a><b></a></b>",
    "an end without a start": "</a>",
    "an end with an attribute": '<a></a b="c">',
    "an end twice": "<a></a></a>",
    "an attribute without quotes": "<a b=c/>",
    "an attribute with a tag": '<a b="<c>"/>',
    "a name that begins with a digit": "<1a/>",
    "too many levels": "<a>".repeat(25) + "</a>".repeat(25),
    "a long name": `<${"a".repeat(129)}/>`,
    "too many elements": `<a>${"<b/>".repeat(500_000)}</a>`,
  };
  for (const [what, text] of Object.entries(refused)) {
    assert.throws(() => parseXml(text), SyntaxError, what);
  }
});

Deno.test("parseXml() reads as many levels and elements, and as long a name, as it says", () => {
  const count = 499_999;
  const { children } = parseXml(`<a>${"<b/>".repeat(count)}</a>`);
  assert.equal(children.length, count);
  assert.equal(parseXml(`<${"a".repeat(128)}/>`).name.length, 128);
  assert.equal(
    parseXml("<a>".repeat(24) + "</a>".repeat(24)).children.length,
    1,
  );
});

Deno.test("parseXml() reads character references", () => {
  assert.equal(parseXml("<a>&#xE9;&#13;&#128512;</a>").text, "é\r😀");
  const named = "<a>&lt;&gt;&amp;&quot;&apos;</a>";
  assert.equal(parseXml(named).text, "<>&\"'");
});

Deno.test("parseXml() takes time in proportion to what it is given", () => {
  // Each would take minutes if any part of it were read once per character.
  for (const part of [" ", "a", '="', "&lt;", " a=''"]) {
    const text = `<a${part.repeat(200_000)}`;
    assert.throws(() => parseXml(text), SyntaxError);
    assert.throws(() => parseXml(`<a>${text.slice(2)}`), SyntaxError);
  }
});

Deno.test("elements are found by their names", () => {
  const root = parseXml(
    '<r xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><set><item><id>1' +
      "</id></item><other/><item><id>2</id></item></set><set/></r>",
  );
  assert.deepEqual(
    itemsAt(root, "set").map((item) => textAt(item, "id")),
    ["1", "2"],
  );
  assert.equal(textAt(root, "set", "item", "id"), "1");
  assert.equal(textAt(root, "set", "none", "id"), undefined);
  assert.equal(childOf(root, "none"), undefined);
  assert.deepEqual(itemsAt(root, "none"), []);
});
