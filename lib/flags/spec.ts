/** Properties of every flag. */
export interface FlagCommon {
  /** One sentence for usage and documentation, without a full stop. */
  readonly help: string;
  /** One letter that does the same as the name. */
  readonly short?: string;
  /** Leaves the flag out of usage, documentation and completion. */
  readonly hidden?: boolean;
  /** The flag is accepted and has no effect; says why, for a warning at start. */
  readonly deprecated?: string;
}

/** A text. */
export interface StringFlag extends FlagCommon {
  /** The discriminant. */
  readonly type: "string";
  /** The value when it is not given. Default: empty. */
  readonly default?: string;
  /** Arguments that make the program list what the value may be, first in each line, for completion. */
  readonly listedBy?: string;
  /** Says what is wrong with a value, or undefined. */
  readonly check?: (text: string) => string | undefined;
}
/** `--flag`, `--flag=true`, `--flag=false`. */
export interface BoolFlag extends FlagCommon {
  /** The discriminant. */
  readonly type: "bool";
  /** The value when it is not given. Default: false. */
  readonly default?: boolean;
}
/** A whole number. */
export interface IntFlag extends FlagCommon {
  /** The discriminant. */
  readonly type: "int";
  /** The value when it is not given. */
  readonly default: number;
  /** The lowest value taken. */
  readonly min?: number;
  /** The highest value taken. */
  readonly max?: number;
}
/** A duration in Go's syntax; its value is in milliseconds. */
export interface DurationFlag extends FlagCommon {
  /** The discriminant. */
  readonly type: "duration";
  /** The value when it is not given. */
  readonly default: number;
  /** The shortest taken, 0 unless given: nothing here waits for a negative time. */
  readonly min?: number;
}
/** Comma-separated, and may be given several times. */
export interface StringListFlag extends FlagCommon {
  /** The discriminant. */
  readonly type: "stringList";
  /** The value when it is not given; what is given takes its place. */
  readonly default: readonly string[];
}
/** One of a set of texts. */
export interface EnumFlag<V extends string = string> extends FlagCommon {
  /** The discriminant. */
  readonly type: "enum";
  /** The value when it is not given. */
  readonly default: V;
  /** What it may be. */
  readonly values: readonly V[];
}

/** One flag of any type. */
export type Flag =
  | StringFlag
  | BoolFlag
  | IntFlag
  | DurationFlag
  | StringListFlag
  | EnumFlag;

/** Flags by name, without the dashes. */
export type FlagSpec = Readonly<Record<string, Flag>>;

/** The type of a flag's value. */
export type FlagValue<F extends Flag> = F extends { type: "bool" } ? boolean
  : F extends { type: "int" | "duration" } ? number
  : F extends { type: "stringList" } ? readonly string[]
  : F extends { type: "enum"; values: readonly (infer V)[] } ? V
  : string;

/** The values of all flags, by their names. */
export type FlagValues<S extends FlagSpec> = {
  readonly [K in keyof S]: FlagValue<S[K]>;
};

/** The value of a flag that is not given. */
export function defaultOf(flag: Flag): NonNullable<Flag["default"]> {
  return flag.default ?? (flag.type === "bool" ? false : "");
}

/** Declares flags; returns them unchanged, with their exact types. */
export function defineFlags<const S extends FlagSpec>(spec: S): S {
  return spec;
}

/** Flags among those that were given that have no effect, each with the reason. */
export function ignoredFlags(
  spec: FlagSpec,
  given: ReadonlySet<string>,
): Record<string, string> {
  const ignored: Record<string, string> = {};
  for (const name of given) {
    const reason = spec[name]?.deprecated;
    if (reason !== undefined) ignored[`--${name}`] = reason;
  }
  return ignored;
}
