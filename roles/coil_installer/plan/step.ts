import type { Program } from "../base/program.ts";

/** One thing to do to the host. Each is harmless when it is done twice. */
export type Step =
  | {
    readonly kind: "installProgram";
    readonly path: string;
    readonly program: Program;
    /** A second file that the earlier program needed, which goes when that no longer runs. */
    readonly former?: string | undefined;
  }
  | {
    readonly kind: "writeConfig";
    readonly path: string;
    readonly text: string;
    /** What the file holds now; undefined when there is none. */
    readonly expected: string | undefined;
  }
  | {
    readonly kind: "setMode";
    readonly path: string;
    readonly mode: number;
  }
  /** Under another name as well. */
  | { readonly kind: "keepCopy"; readonly path: string; readonly as: string }
  /** A symbolic link to the installed plugin, in the place of an earlier file if there is one. */
  | { readonly kind: "link"; readonly path: string }
  | { readonly kind: "rename"; readonly path: string; readonly to: string }
  | { readonly kind: "remove"; readonly path: string };

/** Network configurations may hold secrets of plugins (CIS Kubernetes benchmark 1.1.9). */
export const CONFIG_MODE = 0o600;

/** Whether anything had to be done. */
export type Outcome = "unchanged" | "changed";
