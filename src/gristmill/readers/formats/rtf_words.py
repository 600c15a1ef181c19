"""The words of rich text (RTF): code pages by the number of a font's character set, letters, groups, and what is not text."""

# By `\fcharset`.
CODE_PAGES = {
    77: "mac_roman", 78: "cp932", 79: "cp949", 80: "cp936", 81: "cp950", 83: "cp1255", 84: "cp1256", 85: "cp1253",
    86: "cp1254", 87: "cp874", 88: "cp1250", 89: "cp1251", 128: "cp932", 129: "cp949", 130: "johab", 134: "cp936",
    136: "cp950", 161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257",
    204: "cp1251", 222: "cp874", 238: "cp1250", 254: "cp437", 255: "cp850", 0: "cp1252", 2: "cp1252",
}  # fmt: skip
# Control words that are letters.
SPECIAL = {
    "tab": "\t", "line": "\n", "emdash": "—", "endash": "–", "lquote": "‘", "rquote": "’", "ldblquote": "“",
    "rdblquote": "”", "bullet": "•", "emspace": " ", "enspace": " ", "qmspace": " ", "zwj": "\u200d",
    "zwnj": "\u200c", "lbr": "\n", "softline": "\n",
}  # fmt: skip
# Groups that are not text.
SKIPPED = frozenset(
    (
        "aftncn", "aftnsep", "aftnsepc", "atndate", "atnid", "atnparent", "atnref", "atntime", "atrfend", "atrfstart",
        "background", "bkmkend", "bkmkstart", "buptim", "category", "colorschememapping", "colortbl", "comment",
        "company", "creatim", "datastore", "defchp", "defpap", "doccomm", "docvar", "factoidname", "falt", "ffdeftext",
        "ffentrymcr", "ffexitmcr", "ffformat", "ffhelptext", "ffname", "ffstattext", "filetbl", "fldinst", "fldtype",
        "fname", "ftncn", "ftnsep", "ftnsepc", "generator", "hlinkbase", "htmltag", "latentstyles", "listoverridetable",
        "listtable", "manager", "mathPr", "mmathPict", "nesttableprops", "nonshppict", "objclass", "objdata", "objname",
        "operator", "panose", "passwordhash", "pgdsctbl", "pict", "pnseclvl", "printim", "revtbl", "revtim", "rsidtbl",
        "rxe", "sn", "sp", "sv", "tc", "template", "themedata", "txe", "upr", "userprops", "wgrffmtfilter", "xe",
        "xmlnstbl",
    )
)  # fmt: skip
# Groups with text that may be marked as ignorable.
TEXT_GROUPS = frozenset(
    (
        "annotation", "atnauthor", "do", "dptxbxtext", "ffl", "field", "fldrslt", "footnote", "formfield", "listtext",
        "mmath", "moMath", "moMathPara", "pn", "pntext", "shpinst", "shppict", "shptxt", "ud",
    )
)  # fmt: skip
# Groups with text of their own, by what becomes of it.
SIDE = {
    "header": "header", "headerl": "header", "headerr": "header", "headerf": "header", "footer": "footer",
    "footerl": "footer", "footerr": "footer", "footerf": "footer", "footnote": "note", "annotation": "comment",
    "shptxt": "box", "dptxbxtext": "box", "atnauthor": "author", "title": "title", "author": "author_field",
    "subject": "subject", "keywords": "keywords", "stylesheet": "stylesheet", "fonttbl": "fonttbl",
}  # fmt: skip
