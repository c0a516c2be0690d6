/**
 * A real browser for tests of pages.
 *
 * @module
 */
export { Browser, type Page } from "./browser.ts";
