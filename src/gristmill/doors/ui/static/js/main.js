// @ts-check
/** Where the page begins: the theme, the shell, and the page that the address names. */

import { start } from "./shell.js";

start();
