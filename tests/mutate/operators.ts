import ts from "typescript";

/** One change of a production file. */
export interface Mutant {
  readonly file: string;
  /** Counted from 1. */
  readonly line: number;
  readonly start: number;
  readonly end: number;
  /** What replaces the text between both. */
  readonly to: string;
  /** A comment above says why no test can notice it. */
  readonly isExplained: boolean;
}

/** An edit of the syntax tree: a part, and what replaces it. */
type Edit = readonly [node: ts.Node, to: string];

const { SyntaxKind: Kind } = ts;

/** Each operator, and what replaces it. */
const OPERATORS: ReadonlyMap<ts.SyntaxKind, string> = new Map([
  [Kind.EqualsEqualsEqualsToken, "!=="],
  [Kind.ExclamationEqualsEqualsToken, "==="],
  [Kind.LessThanToken, "<="],
  [Kind.LessThanEqualsToken, "<"],
  [Kind.GreaterThanToken, ">="],
  [Kind.GreaterThanEqualsToken, ">"],
  [Kind.AmpersandAmpersandToken, "||"],
  [Kind.BarBarToken, "&&"],
  [Kind.PlusToken, "-"],
  [Kind.MinusToken, "+"],
  [Kind.AsteriskToken, "/"],
  [Kind.SlashToken, "*"],
  [Kind.PercentToken, "*"],
  [Kind.PlusEqualsToken, "-="],
  [Kind.MinusEqualsToken, "+="],
]);

/** For times, of which it does not matter whether the limit itself counts. */
const OPPOSITES: ReadonlyMap<ts.SyntaxKind, string> = new Map([
  [Kind.LessThanToken, ">="],
  [Kind.LessThanEqualsToken, ">"],
  [Kind.GreaterThanToken, "<="],
  [Kind.GreaterThanEqualsToken, "<"],
]);

/** The last word of a name that is a time. */
const TIME = /(^now|_MS|Ms|At|Since|Until|[uU]ntil|nowMs\(\)|now\(\))$/;

/** Methods and functions that have a counterpart. */
const COUNTERPARTS: Readonly<Record<string, string>> = {
  some: "every",
  every: "some",
  min: "max",
  max: "min",
};

/** All single changes of a file that a test should notice, in the order of the text. */
export function findMutants(file: string, text: string): Mutant[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const mutants: Mutant[] = [];
  const visit = (node: ts.Node): void => {
    for (const [part, to] of editsOf(node)) {
      const start = part.getStart(source);
      const { line } = source.getLineAndCharacterOfPosition(start);
      const isExplained = hasExplanation(part, text);
      const place = { file, line: line + 1, start, end: part.end };
      mutants.push({ ...place, to, isExplained });
    }
    // Types have no effect; texts for people and log records are no behaviour.
    node.forEachChild((child) => {
      if (!ts.isTypeNode(child) && !isForPeople(child)) visit(child);
    });
  };
  visit(source);
  return mutants.sort((a, b) => a.start - b.start);
}

/** The file's text with the change. */
export function applyMutant(text: string, { start, end, to }: Mutant): string {
  return text.slice(0, start) + to + text.slice(end);
}

/** Whether a comment begins with "mutate:" above the node's statement or member, or above the function that it is in. */
function hasExplanation(node: ts.Node, text: string): boolean {
  let isInside = false;
  for (let part = node; !ts.isSourceFile(part); part = part.parent) {
    const isWhole = ts.isFunctionDeclaration(part) || ts.isClassElement(part);
    if ((!isInside || isWhole) && isMarked(part, text)) return true;
    if (isWhole) return false;
    isInside ||= ts.isStatement(part);
  }
  return false;
}

function isMarked({ pos }: ts.Node, text: string): boolean {
  const comments = ts.getLeadingCommentRanges(text, pos) ?? [];
  return comments.some((comment) =>
    /^\/\/ mutate: \S/.test(text.slice(comment.pos, comment.end))
  );
}

function* editsOf(node: ts.Node): Generator<Edit> {
  if (ts.isBinaryExpression(node)) yield* operatorEdits(node);
  else if (node.kind === Kind.TrueKeyword) yield [node, "false"];
  else if (node.kind === Kind.FalseKeyword) yield [node, "true"];
  else if (ts.isPrefixUnaryExpression(node)) yield* notEdits(node);
  else if (ts.isIfStatement(node)) yield* negation(node.expression);
  else if (ts.isConditionalExpression(node)) yield* negation(node.condition);
  else if (ts.isWhileStatement(node)) yield* negation(node.expression);
  else if (ts.isExpressionStatement(node) && callOf(node) !== undefined) {
    // Not ";", which cannot be what an `if` does.
    yield [node, "{}"];
  } else if (ts.isStringLiteral(node) && isCode(node) && node.text !== "") {
    yield [node, '""'];
  } else if (ts.isArrayLiteralExpression(node) && node.elements.length > 0) {
    if (!isTarget(node)) yield [node, "[]"];
  } else if (ts.isIdentifier(node)) yield* counterpart(node);
  if (ts.isBlock(node)) yield* swaps(node.statements);
}

function* operatorEdits(node: ts.BinaryExpression): Generator<Edit> {
  const { kind } = node.operatorToken;
  const opposite = OPPOSITES.get(kind);
  if (opposite !== undefined && comparesTimes(node)) {
    // A whole condition is negated anyway.
    if (!isCondition(node)) yield [node.operatorToken, opposite];
    return;
  }
  const to = OPERATORS.get(kind);
  const isText = kind === Kind.PlusToken &&
    [node.left, node.right].some(ts.isStringLiteralLike);
  if (to !== undefined && !isText) yield [node.operatorToken, to];
  if (kind === Kind.QuestionQuestionToken) {
    yield [node, node.right.getText()];
  }
}

function comparesTimes({ left, right }: ts.BinaryExpression): boolean {
  return [left, right].some((side) => TIME.test(side.getText()));
}

function* notEdits(node: ts.PrefixUnaryExpression): Generator<Edit> {
  // A condition that begins with it is negated as a whole.
  if (node.operator !== Kind.ExclamationToken || isCondition(node)) return;
  yield [node, node.operand.getText()];
}

function* negation(condition: ts.Expression): Generator<Edit> {
  // A comparison has its own operator; `while (true)` its literal.
  if (ts.isBinaryExpression(condition)) {
    const { kind } = condition.operatorToken;
    if (kind === Kind.EqualsEqualsEqualsToken) return;
    if (kind === Kind.ExclamationEqualsEqualsToken) return;
  }
  if (condition.kind === Kind.TrueKeyword) return;
  yield [condition, `!(${condition.getText()})`];
}

/** Whether the node is all of a condition. */
function isCondition(node: ts.Node): boolean {
  const { parent } = node;
  return (ts.isIfStatement(parent) || ts.isWhileStatement(parent))
    ? parent.expression === node
    : ts.isConditionalExpression(parent) && parent.condition === node;
}

/** The call that is all of a statement, with `await` or without; `super()` cannot be left out. */
function callOf(node: ts.Statement): ts.CallExpression | undefined {
  if (!ts.isExpressionStatement(node)) return undefined;
  const { expression } = node;
  const call = ts.isAwaitExpression(expression)
    ? expression.expression
    : ts.isVoidExpression(expression)
    ? expression.expression
    : expression;
  if (!ts.isCallExpression(call)) return undefined;
  return call.expression.kind === Kind.SuperKeyword ? undefined : call;
}

/** Two calls, one after the other, at least one of which is awaited: their order may matter. */
function* swaps(statements: readonly ts.Statement[]): Generator<Edit> {
  for (const [index, first] of statements.entries()) {
    const second = statements[index + 1];
    if (second === undefined) return;
    const both = [first, second];
    if (both.some((one) => callOf(one) === undefined || isForPeople(one))) {
      continue;
    }
    if (!both.some((one) => one.getText().startsWith("await "))) continue;
    yield [pair(first, second), `${second.getText()} ${first.getText()}`];
  }
}

/** A node that reaches over both. */
function pair(first: ts.Node, second: ts.Node): ts.Node {
  return Object.assign(Object.create(first), { end: second.end });
}

function* counterpart(node: ts.Identifier): Generator<Edit> {
  const to = Object.hasOwn(COUNTERPARTS, node.text)
    ? COUNTERPARTS[node.text]
    : undefined;
  const { parent } = node;
  const isCalled = ts.isPropertyAccessExpression(parent) &&
    parent.name === node && ts.isCallExpression(parent.parent);
  if (to !== undefined && isCalled) yield [node, to];
}

/** Whether a string is neither a module's name, nor that of a property, task, log or error, nor a metric's help or part of a sentence. */
function isCode(node: ts.Node): boolean {
  const { parent } = node;
  if (ts.isPropertyAssignment(parent)) {
    return parent.initializer === node && parent.name.getText() !== "help";
  }
  if (isSentence(node) || isIndexName(node)) return false;
  // An error's class, in messages; callers match by instanceof.
  if (ts.isPropertyDeclaration(parent) && parent.name.getText() === "name") {
    return false;
  }
  if (ts.isCallExpression(parent)) {
    const { expression, arguments: [first] } = parent;
    return expression.kind !== Kind.ImportKeyword &&
      !(first === node && isOfTaskOrLog(expression.getText()));
  }
  return !ts.isImportDeclaration(parent) && !ts.isExportDeclaration(parent);
}

/** Whether a text is that of a constant such as `BY_NODE`, by which an index is found again: any other does. */
function isIndexName({ parent }: ts.Node): boolean {
  return ts.isVariableDeclaration(parent) &&
    /^BY_/.test(parent.name.getText());
}

/** Whether a text is a sentence, or words that are joined to others: a message. */
function isSentence(node: ts.Node): boolean {
  const { parent } = node;
  const text = node.getText().slice(1, -1);
  const isPiece = ts.isBinaryExpression(parent) &&
    parent.operatorToken.kind === Kind.PlusToken;
  if (isPiece) return /\w \w/.test(text);
  return /^[A-Z]\S* \S+ \S/.test(text) || /^\w+( \S+){4}/.test(text);
}

/** Whether the first argument of a call of this function is a name in records of the log. */
function isOfTaskOrLog(called: string): boolean {
  return called === "getLogger" ||
    /\b(tasks|group|background)\.run$/.test(called);
}

/** Whether an array literal is the left side of an assignment. */
function isTarget(node: ts.Node): boolean {
  const { parent } = node;
  return ts.isBinaryExpression(parent) && parent.left === node &&
    parent.operatorToken.kind === Kind.EqualsToken;
}

/** Whether the node is `super(…)` of an error's class, which takes the message. */
function isErrorsSuper(node: ts.Node): boolean {
  if (!ts.isCallExpression(node)) return false;
  if (node.expression.kind !== Kind.SuperKeyword) return false;
  const constructor = ts.findAncestor(node, ts.isConstructorDeclaration);
  const { heritageClauses = [] } = (constructor?.parent ?? {}) as Partial<
    ts.ClassLikeDeclaration
  >;
  return heritageClauses.some((clause) => /Error$/.test(clause.getText()));
}

/** Errors, records of a log, and whether there is one, or which. */
function isForPeople(node: ts.Node): boolean {
  if (ts.isIfStatement(node)) {
    const { thenStatement, elseStatement = thenStatement } = node;
    return [thenStatement, elseStatement].every(isForPeople);
  }
  if (ts.isBlock(node)) {
    return node.statements.length > 0 && node.statements.every(isForPeople);
  }
  if (ts.isNewExpression(node)) return /Error$/.test(node.expression.getText());
  if (isErrorsSuper(node)) return true;
  const call = ts.isStatement(node) ? callOf(node) : undefined;
  return call !== undefined &&
    /\b\w*log\w*(\([^()]*\))?(\??\.(debug|info|warn|error)|\[.*\])$/is
      .test(call.expression.getText());
}
