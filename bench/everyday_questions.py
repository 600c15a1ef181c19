"""Questions of everyday life and of offices, which collections for research don't answer. The fit of scores uses the first
half of each list, measurements the second."""

ENGLISH = """How do I reset my password?
What is the refund policy for annual subscriptions?
best pizza near the office
How long should I boil an egg?
My printer says paper jam but there is none
Who approves travel expenses above 500 euros?
How do I share state between two React components?
Why does my dog eat grass?
change the oil of a lawn mower
When is the company holiday party?
how to remove red wine stains from carpet
What time does the pharmacy close on Sunday?
Can I bring my bicycle on the train?
how to tie a bow tie
The meeting room display does not turn on
How many vacation days do new employees get?
chocolate cake recipe without eggs
Is it going to rain tomorrow?
configure two-factor authentication for my account
Which visa do I need to work in Canada?
my phone battery drains overnight
cheap flights to Lisbon in May
how do I unsubscribe from the newsletter
What is the wifi password for guests?
train a puppy not to bite
Where do I park when the garage is full?
How do I merge two branches in git?
good gift for a five year old
The dishwasher leaves white spots on glasses
When are invoices paid?
how to cancel a gym membership
Which trains run on public holidays?
replace the filter of the coffee machine
How do I export my calendar?
what to wear to a job interview
My laptop fan is very loud
How often should I water a cactus?
renew a driving licence online
Who do I call when the elevator is stuck?
how to fold a fitted sheet""".splitlines()

CHINESE = """怎么在组件之间共享状态？
如何配置数据库连接池的大小
打印机卡纸了怎么办
公司报销流程需要哪些材料
请假审批多久能下来
如何重置登录密码
服务器内存不足时该怎么排查
用微波炉加热牛奶要几分钟
孩子发烧三十九度怎么处理
今天上海会下雨吗
红烧肉的做法
怎样写一份好的简历
年终奖什么时候发放
自行车链条掉了怎么装回去
如何取消自动续费的会员
浏览器缓存怎么清理
手机屏幕碎了修要多少钱
会议室预订系统打不开
电饭煲煮粥放多少水
跑步后膝盖疼是什么原因
发票抬头写错了能改吗
猫咪不吃东西怎么办
社保断缴一个月有影响吗
怎么把文件压缩后发送邮件
租房合同到期押金怎么退
车库满了车停在哪里
怎样合并两个代码分支
送五岁孩子什么生日礼物好
洗碗机洗完杯子上有白点
供应商的货款什么时候付
健身卡怎么退
节假日地铁几点停运
咖啡机的滤网多久换一次
怎么导出日历
面试穿什么衣服合适
笔记本电脑风扇声音很大
仙人掌多久浇一次水
驾照到期怎么换证
电梯坏了给谁打电话
羽绒服可以用洗衣机洗吗""".splitlines()
