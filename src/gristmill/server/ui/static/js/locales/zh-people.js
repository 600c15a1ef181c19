// @ts-check
/** Simplified Chinese for signing in, users and groups. @type {Messages} */

/** @import { Messages } from "../i18n.js" */

export const messages = {
  "Your API keys": "您的 API 密钥",
  "A key lets your own programs and agents act as you. It ends with your account.":
    "密钥让您自己的程序和智能体以您的身份工作，并随您的账户一起失效。",
  "Email address": "邮箱地址",
  Password: "密码",
  "Sign in with {name}": "使用 {name} 登录",
  "Sign in with a password": "使用密码登录",
  "Sign in with an API key": "使用 API 密钥登录",
  "The provider did not sign you in. Try again, or ask an admin for access.":
    "身份提供方未让您登录。请重试，或向管理员申请访问权限。",
  "This sign-in took too long, or was begun in another browser. Start again.":
    "本次登录耗时过长，或是在另一个浏览器中开始的。请重新开始。",
  "The sign-in could not be completed. Try again; if it keeps failing, ask an admin to look into the log.":
    "登录未能完成。请重试；如果一直失败，请让管理员查看日志。",
  "The provider does not answer. Try again later.": "身份提供方没有响应，请稍后再试。",
  "The provider has not verified your email address. Verify it there, then try again.":
    "身份提供方尚未验证您的邮箱。请先在那里验证，然后重试。",
  "Your account is not active. Ask an admin.": "您的账户未启用，请联系管理员。",
  "Too many sign-ins failed. Wait a minute, then try again.": "登录失败次数过多。请等一分钟后再试。",
  "Signed in as {name} ({email}, role: {role}).": "已以 {name} 的身份登录（{email}，角色：{role}）。",
  "Sign out everywhere": "在所有浏览器中退出",
  "Current password": "当前密码",
  "New password": "新密码",
  "Change password": "更改密码",
  "Your password is changed. Other browsers are signed out.": "密码已更改，其他浏览器已退出登录。",
  People: "人员",
  Push: "推送",
  Secret: "密钥",
  "Push of {name}": "{name} 的推送",
  "The tool calls this address when something changed, and a sync starts at once. Enter it as a webhook there.":
    "工具中有变化时会调用此地址，同步随即开始。请在工具中将其设为 Webhook。",
  "The secret of the webhook. It is shown only once.": "Webhook 的密钥，只显示一次。",
  "For tools that don't sign: the address with the secret": "用于不签名的工具：包含密钥的地址",
  "Last push": "上次推送",
  "Turn off": "停用",
  "New secret": "新密钥",
  "Create secret": "创建密钥",
  "People of {name}": "{name} 的人员",
  "The tool does not show the email addresses of these accounts. They see nothing until they are mapped.":
    "工具未提供这些账号的邮箱地址。在对应到邮箱之前，他们看不到任何内容。",
  "CSV file with the columns userId or name, and email": "包含 userId 或 name 以及 email 列的 CSV 文件",
  "Match with users": "与用户匹配",
  "All accounts have an address.": "所有账号都有地址。",
  "Accounts without an address": "没有地址的账号",
  "The first {count} are shown.": "显示前 {count} 个。",
  "Who can see it": "谁可以查看",
  "Visible to": "可见范围",
  "Whoever can see it in the tool": "在该工具中有权查看的人",
  "Certain people and groups": "指定的人员和群组",
  "People and groups": "人员和群组",
  "Email addresses and names of groups, one per line. Only admins see the documents if there are none.":
    "每行一个邮箱地址或群组名称。留空则只有管理员能看到这些文档。",
  "There is no group named {name}.": "没有名为 {name} 的群组。",
  "This tool has no permissions that could be followed.": "该工具没有可沿用的权限。",
  "Only admins": "仅管理员",
  "Groups of the tool": "工具中的群组",
  "Groups of the tool that access lists name:": "访问列表引用的工具群组：",
  "members not known: it shows nothing to anyone": "成员未知：不向任何人显示内容",
  "{count} accounts mapped": "已对应 {count} 个账号",
  "Line {line}": "第 {line} 行",
  "The address is not an email address.": "不是邮箱地址。",
  "Several accounts have this name. Add a column userId.": "有多个同名账号，请添加 userId 列。",
  "No account has this name. Check it, or add a column userId.": "没有这个名称的账号。请检查，或添加 userId 列。",
  Users: "用户",
  "New user": "新建用户",
  "New group": "新建群组",
  "No groups yet": "还没有群组",
  "No users yet": "还没有用户",
  "Create one, let people sign in through your OpenID provider, or have them provisioned by SCIM.":
    "请新建用户，或让人们通过 OpenID 提供商登录、由 SCIM 同步。",
  "Create one, or let your OpenID provider or SCIM name them.": "请新建群组，或由 OpenID 提供商、SCIM 提供。",
  "Their sessions and keys end at once. What they added stays.": "其会话和密钥立即失效。其添加的内容会保留。",
  Deactivate: "停用",
  Activate: "启用",
  "At least 10 characters. A new one signs them out. Leave it empty to keep the current one.":
    "至少 10 个字符。设置新密码会让其退出登录；留空则保留当前密码。",
  "signed in": "登录于",
  "never signed in": "从未登录",
  "not active": "未启用",
  "Delete {name}": "删除 {name}",
  "Its members stay, and lose what they saw only through it.": "成员会保留，但会失去仅通过此群组可见的内容。",
  "{n} members": "{n} 个成员",
  Members: "成员",
  "Members of {name}": "{name} 的成员",
  "At least 10 characters. Without one they sign in at the OpenID provider.":
    "至少 10 个字符。没有密码时，他们通过 OpenID 提供方登录。",
  "There is no user with this address, and no group of this name.": "没有使用此邮箱的用户，也没有此名称的群组。",
  "Remove {name}": "移除 {name}",
  // the queue
  "Retry {n} jobs?": "重试 {n} 个任务？",
  "They are queued again, with all their attempts. What they embed may cost money.":
    "它们会重新排队，尝试次数重新计算。生成向量可能产生费用。",
};
