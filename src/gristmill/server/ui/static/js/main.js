// @ts-check
/** Where the page begins: the theme, the shell, and the page that the address names. */

import { leadToSignIn } from "./locked.js";
import { start } from "./shell.js";

leadToSignIn();
start();
